"""docs/programs.md lists the options that the programs read."""

from pathlib import Path

import pytest

from tests.app.cli_here import trainshed_here
from trainshed.programs.reference import PROGRAMS, render_programs

COMMITTED = Path(__file__).parents[3] / "docs" / "programs.md"


def test_committed_page_lists_the_options_of_the_programs() -> None:
    how = "run `python -m trainshed.programs.reference > docs/programs.md`"
    assert COMMITTED.read_text(encoding="utf-8") == render_programs(), how


@pytest.mark.parametrize("name", PROGRAMS)
def test_explain_shows_each_option_of_a_program_without_a_file(name: str) -> None:
    said = trainshed_here("explain", "--program", name)

    assert said.code == 0, said.stderr
    assert f"trainshed.programs.{name}:train" in said.stdout
    assert "  label: text, default" in said.stdout or name == "vision"


def test_the_nearest_program_is_offered() -> None:
    said = trainshed_here("explain", "--program", "visio")

    assert said.code == 2
    assert "got visio; expected one of vision, " in said.stderr
    assert "Did you mean vision?" in said.stderr
