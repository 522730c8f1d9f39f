"""docs/programs.md lists the options that the programs read."""

from pathlib import Path

from trainshed.programs.reference import render_programs

COMMITTED = Path(__file__).parents[3] / "docs" / "programs.md"


def test_committed_page_lists_the_options_of_the_programs() -> None:
    how = "run `python -m trainshed.programs.reference > docs/programs.md`"
    assert COMMITTED.read_text(encoding="utf-8") == render_programs(), how
