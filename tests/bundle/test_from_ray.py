"""What docs/from-ray.md shows is a part of a TrainingRun that is accepted as it stands there."""

import re

import pytest
import yaml

from tests.builders import make_document
from tests.bundle.repository import ROOT
from trainshed_api.syntax import parse_python
from trainshed_api.validation import validate_document

PAGE = (ROOT / "docs" / "from-ray.md").read_text("utf-8")


def blocks_of(language: str) -> list[str]:
    """Return what the page shows in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


SHOWN = blocks_of("yaml")
PROGRAMS = blocks_of("python")


def test_the_page_shows_some() -> None:
    assert len(SHOWN) > 20
    assert len(PROGRAMS) > 20


@pytest.mark.parametrize(
    "text", PROGRAMS, ids=lambda text: text.strip().splitlines()[-1].strip()[:40]
)
def test_programs_are_python(text: str) -> None:
    assert parse_python(text).body


@pytest.mark.parametrize("text", SHOWN, ids=lambda text: text.strip().splitlines()[-1].strip()[:40])
def test_what_is_shown_is_accepted(text: str) -> None:
    run = validate_document(make_document(**yaml.safe_load(text)), "from-ray.md")

    datasets = run.spec.data.datasets
    mixed = {part for dataset in datasets.values() for part in dataset.read.mix or ()}
    assert datasets.keys() - mixed <= {"train", "valid"}
