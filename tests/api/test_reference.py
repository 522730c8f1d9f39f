"""The reference in docs/ is the model's."""

from pathlib import Path

from trainshed_api.reference import render_reference

COMMITTED = Path(__file__).parents[2] / "docs" / "trainingrun.md"


def test_committed_reference_is_what_the_model_says() -> None:
    want = "run `python -m trainshed_api.reference > docs/trainingrun.md`"
    assert COMMITTED.read_text(encoding="utf-8") == render_reference(), want
