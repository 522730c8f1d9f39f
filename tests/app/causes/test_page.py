"""`trainshed why` names the section of the documentation about its cause."""

from pathlib import Path

import pytest

from trainshed.causes.chain import CAUSES, MESSAGES, PAGE, Diagnosis, Link


@pytest.mark.parametrize("anchor", [CAUSES, MESSAGES])
def test_the_sections_that_why_names_are_on_its_page(anchor: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    titles = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]

    assert anchor in [title.lower().replace(" ", "-") for title in titles]


@pytest.mark.parametrize(
    ("says", "anchor"),
    [
        ("NonFiniteLossError: the loss is NaN", MESSAGES),
        ("the storage is full: OSError", MESSAGES),
        ("KeyError: 'label'", CAUSES),
    ],
)
def test_why_names_the_section_about_its_cause(says: str, anchor: str) -> None:
    broken = Link("training", "failed", says)
    found = Diagnosis("digits", "runs", "Failed", (broken,), healthy="", is_over=True)

    assert found.page == f"{PAGE}#{anchor}"


def test_why_names_no_section_if_nothing_broke() -> None:
    found = Diagnosis("digits", "runs", "Running", (), healthy="trains", is_over=False)

    assert not found.page
