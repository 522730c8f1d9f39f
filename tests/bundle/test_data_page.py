"""The pages of docs/data show parts of the samples, and their table of formats is complete."""

import re

import pytest
import yaml
from pydantic import JsonValue

from tests.bundle.repository import ROOT
from trainshed.data.sources.dataset_files import FILES
from trainshed_api.formats import FORMATS

SAMPLES = ROOT / "manifests" / "samples" / "data"
PAGES = sorted((ROOT / "docs" / "data").glob("*.md"))
PAGE = "".join(page.read_text("utf-8") for page in PAGES)
LINK = r"\[(?P<name>[\w-]+)\.yaml\]\(\.\./\.\./manifests/samples/data/(?P=name)\.yaml\)"
SHOWN = re.findall(rf"^```yaml\n(.*?)^```\n\n(?:{LINK})?", PAGE, re.DOTALL | re.MULTILINE)


def part_of(sample: str, key: str) -> JsonValue:
    """Return the data of a sample, one of its datasets, or how the one that trains is read."""
    document = yaml.safe_load((SAMPLES / f"{sample}.yaml").read_text("utf-8"))
    data: dict[str, JsonValue] = document["spec"]["data"]
    datasets = data["datasets"]
    assert isinstance(datasets, dict)
    train = datasets["train"]
    assert isinstance(train, dict)
    return {"data": data, "read": train["read"], **datasets}[key]


@pytest.mark.parametrize(("text", "sample"), SHOWN, ids=[sample for _, sample in SHOWN])
def test_what_is_shown_is_what_the_sample_below_it_has(text: str, sample: str) -> None:
    assert sample, "no sample is named below it"
    [(key, value)] = yaml.safe_load(text).items()

    assert value == part_of(sample, key)


def test_every_sample_is_named() -> None:
    named = set(re.findall(LINK, PAGE))

    assert sorted(named) == sorted(path.stem for path in SAMPLES.glob("*.yaml"))


def test_pages_close_with_limits() -> None:
    headings = {page.stem: re.findall("^## (.*)$", page.read_text(), re.M) for page in PAGES}
    last = {name: found[-1] for name, found in headings.items() if name != "README"}

    assert set(last.values()) == {"Limits"}


def test_the_page_has_a_row_for_every_format() -> None:
    assert sorted(re.findall(r"^\| `(\w+)` \| .* \| (?:yes|`\w+`) \|$", PAGE, re.MULTILINE)) == (
        sorted(FORMATS)
    )


def test_the_page_names_all_endings() -> None:
    for form, reader in FILES.items():
        [row] = re.findall(rf"^\| `{form}` \| (.*?) \| .* \| (?:yes|`\w+`) \|$", PAGE, re.MULTILINE)
        plain = {ending for ending in reader.suffixes if ending.count(".") == 1}
        assert set(re.findall(r"`(\.\w+)`", row)) == plain
        assert ("compressed" in row) is (len(plain) < len(reader.suffixes))
