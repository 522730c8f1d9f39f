"""What docs/from-ray.md shows is a part of a TrainingRun that is accepted as it stands there."""

import re

import pytest
import yaml

from tests.builders import make_document
from tests.bundle.repository import ROOT
from trainshed_api.validation import validate_document

PAGE = (ROOT / "docs" / "from-ray.md").read_text("utf-8")
SHOWN = re.findall(r"^```yaml\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_the_page_shows_some() -> None:
    assert len(SHOWN) > 4


@pytest.mark.parametrize("text", SHOWN, ids=lambda text: text.strip().splitlines()[-1].strip()[:40])
def test_what_is_shown_is_accepted(text: str) -> None:
    run = validate_document(make_document(**yaml.safe_load(text)), "from-ray.md")

    assert run.spec.data.datasets.keys() <= {"train", "valid"}
