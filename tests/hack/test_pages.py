"""Pages that show runs: their files exist and are accepted, and what they print is compared."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hack.pages import (
    first_chart,
    is_alike,
    list_pages,
    main,
    missing_lines,
    run_commands,
    shown_session,
)
from tests.bundle.repository import ROOT
from trainshed_api.loading import load_file

EXAMPLES = [ROOT / "examples" / name for name in ("gallery", "how-to")]
FILES = sorted(file for folder in EXAMPLES for file in folder.rglob("*.*") if file.suffix != ".pyc")
ALIKE = {
    "a number may differ by a tenth": ("valid.loss 0.50", "valid.loss        0.53"),
    "the end of a line may be any": ("digits Succeeded after ...", "digits Succeeded after 1 min"),
    "spaces do not count": ("a  b", " a b "),
}
UNLIKE = {
    "another number": ("valid.loss 0.5", "valid.loss 0.7"),
    "another word": ("valid.loss 0.5", "train.loss 0.5"),
    "more words": ("valid.loss 0.5", "valid.loss 0.5 0.5"),
}


@pytest.mark.parametrize("lines", ALIKE.values(), ids=ALIKE.keys())
def test_a_printed_line_is_as_shown(lines: tuple[str, str]) -> None:
    assert is_alike(*lines)


@pytest.mark.parametrize("lines", UNLIKE.values(), ids=UNLIKE.keys())
def test_a_printed_line_is_another_one(lines: tuple[str, str]) -> None:
    assert not is_alike(*lines)


def test_lines_are_found_in_the_order_of_the_page() -> None:
    assert missing_lines(["a", "c"], "a\nb\nc\n") == []
    assert missing_lines(["c", "a"], "a\nb\nc\n") == ["a"]


def test_a_session_is_commands_and_what_they_print(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ make run\n...\nloss 0.5\n```\n\n```console\n$ other\n```\n")

    assert shown_session(page) == (["make run"], ["loss 0.5"])


def test_the_commands_of_a_page_end_at_the_first_failure(tmp_path: Path) -> None:
    assert run_commands(["echo one", "false", "echo two"], str(tmp_path)) == (1, "one\n")


def test_an_unknown_page_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--name", "detektion"])
    assert "--name: got detektion; expected one of bucket, cpu-nodes," in capsys.readouterr().err


def test_a_page_that_needs_more_than_the_clone_runs_only_by_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- needs: a bucket -->\n```console\n$ echo one\none\n```\n")
    monkeypatch.setattr("hack.pages.list_pages", lambda _: [page])

    main([])
    assert capfd.readouterr().out == "=== page: skipped, needs a bucket; NAME=page runs it\n"
    main(["--name", "page"])
    assert capfd.readouterr().out.endswith("page: as shown\n")


def test_a_picture_is_the_first_chart_with_the_colors_of_the_report() -> None:
    chart = first_chart(2 * '<svg class="chart" viewBox="0 0 9 9"><line class="axis"/></svg>')

    assert [each.tag.rpartition("}")[2] for each in ElementTree.fromstring(chart)] == [
        "style",
        "line",
    ]
    assert "--s0: #" in chart


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: page.stem)
def test_a_page_begins_with_commands_and_shows_what_they_print(page: Path) -> None:
    commands, shown = shown_session(page)
    assert commands
    assert shown


def test_pages_link_all_files_of_their_examples() -> None:
    text = "".join(page.read_text("utf-8") for page in list_pages())
    linked = {
        (ROOT / "docs" / "x" / link).resolve() for link in re.findall(r"\]\((\.[^)#]+)", text)
    }
    assert [file for file in FILES if "__pycache__" not in file.parts and file not in linked] == []


@pytest.mark.parametrize(
    "file", [file for file in FILES if file.suffix == ".yaml"], ids=lambda file: file.stem
)
def test_training_runs_of_examples_are_accepted(file: Path) -> None:
    assert load_file(file).spec.train
