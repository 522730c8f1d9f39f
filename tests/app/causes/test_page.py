"""`trainshed why` names the section of the documentation about its cause."""

import re
from pathlib import Path
from typing import get_args

import pytest

from trainshed.causes.chain import PAGE, Diagnosis, Link, LinkName
from trainshed.failures import RULES

TROUBLESHOOTING = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
ERRORS = (
    "NonFiniteLossError",
    "UnsupportedWrapperError",
    "UnsavableStateError",
    "OtherParametersError",
)


def section_of(*links: Link) -> str:
    found = Diagnosis("digits", "runs", "Failed", links, healthy="", is_over=True)
    return found.page.removeprefix(f"{PAGE}#")


def failed(says: str, link: LinkName = "training") -> Link:
    return Link(link, "failed", says)


@pytest.mark.parametrize(
    ("says", "section"),
    [
        ("NonFiniteLossError: the loss is NaN", "nonfinitelosserror"),
        ("the storage is full: OSError", "the-storage-is-full"),
        ("KeyError: 'label'", "training"),
    ],
)
def test_why_names_the_section_about_its_cause(says: str, section: str) -> None:
    assert section_of(failed(says), failed("the network failed", "driver")) == section


def test_each_kind_of_failure_error_and_link_has_a_section() -> None:
    titles = re.findall(r"^### (.*)$", TROUBLESHOOTING.read_text("utf-8"), re.MULTILINE)
    causes = [
        *(failed(rule.says) for rule in RULES.values() if rule.says),
        *(failed(f"{error}: words") for error in ERRORS),
        *(failed("words", name) for name in get_args(LinkName)),
    ]

    sections = {title.lower().replace(" ", "-") for title in titles}
    assert {section_of(cause) for cause in causes} - sections == set()


def test_why_names_no_section_if_nothing_broke() -> None:
    found = Diagnosis("digits", "runs", "Running", (), healthy="trains", is_over=False)

    assert not found.page
