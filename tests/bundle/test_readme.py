"""README and docs/training.md show the files as they are, and their samples work."""

import difflib
import re
from pathlib import Path

import pytest
import torch

from hack.readme import SHOWN, adoption_diff, fill
from tests.bundle.repository import ROOT
from trainshed.cli.main import cli

README = (ROOT / "README.md").read_text()
TRAINING = (ROOT / "docs" / "training.md").read_text()
COMMANDS = (ROOT / "docs" / "cli.md").read_text()
ADOPT = ROOT / "examples" / "adopt"


@pytest.mark.parametrize("page", SHOWN)
def test_a_page_shows_the_files_as_they_are(page: str) -> None:
    text = (ROOT / page).read_text()
    assert fill(page, text) == text, "run `make fmt`"


def test_readme_fits_on_a_few_screens() -> None:
    assert len(README.splitlines()) <= 120


def test_adopting_a_ray_train_function_changes_at_most_8_lines() -> None:
    before, after = ((ADOPT / name).read_text().splitlines() for name in ("before.py", "after.py"))
    opcodes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    # A line that gives way to another counts once; one that only comes or goes counts, too.
    changed = sum(
        max(before_end - before_start, after_end - after_start)
        for tag, before_start, before_end, after_start, after_end in opcodes
        if tag != "equal"
    )
    assert 0 < changed <= 8, adoption_diff()


def test_the_function_before_knows_nothing_of_trainshed() -> None:
    assert "trainshed" not in (ADOPT / "before.py").read_text()


def test_three_lines_read_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, fresh = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    (tmp_path / "checkpoint").mkdir()
    torch.save(trained.state_dict(), tmp_path / "checkpoint" / "model.pt")
    blocks = re.findall(r"^```python\n(.*?)^```$", TRAINING, re.DOTALL | re.MULTILINE)
    [block] = [each for each in blocks if "torch.load" in each]
    monkeypatch.chdir(tmp_path)

    exec(block, {"your_network": fresh})

    assert len(block.splitlines()) == 3
    assert torch.equal(fresh.weight, trained.weight)


def test_commands_are_those_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    shown = set(re.findall(r"\bmake ([a-z]+)\b", README))
    assert {verb for verb in shown if not re.search(rf"^{verb}:", makefile, re.MULTILINE)} == set()


def test_tables_of_commands_are_those_of_the_command_line() -> None:
    tables = re.findall(r"^\| Command \| \|\n((?:\|.*\n)+)", COMMANDS, re.MULTILINE)
    cells = [row.split("|")[1] for table in tables for row in table.splitlines()]
    shown = {name for cell in cells for name in re.findall(r"`([a-z]+)", cell)}
    assert shown == set(cli.commands)
