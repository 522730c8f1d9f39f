"""What the README shows is what the files say, and works."""

import difflib
import re
from pathlib import Path

import pytest
import torch

from hack.readme import adoption_diff, fill
from tests.bundle.repository import ROOT
from trainshed.cli.main import cli

README = (ROOT / "README.md").read_text()
ADOPT = ROOT / "examples" / "adopt"


def test_readme_shows_the_files_as_they_are() -> None:
    assert fill(README) == README, "run `make fmt`"


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
    [block] = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)

    exec(block, {"your_network": fresh})

    assert len(block.splitlines()) == 3
    assert torch.equal(fresh.weight, trained.weight)


def test_links_lead_to_files() -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)\)", README)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_commands_are_those_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    shown = set(re.findall(r"\bmake ([a-z]+)\b", README))
    assert {verb for verb in shown if not re.search(rf"^{verb}:", makefile, re.MULTILINE)} == set()


def test_table_of_commands_is_that_of_the_command_line() -> None:
    shown = set(re.findall(r"^\| `trainshed (\w+)", README, re.MULTILINE))
    assert shown == set(cli.commands)
