"""One version number, wherever it is written."""

import re

import trainshed
from tests.bundle.repository import ROOT, pyproject


def test_package_and_pyproject_say_the_same_version() -> None:
    assert trainshed.__version__ == pyproject()["version"]


def test_newest_release_of_the_changelog_is_the_version() -> None:
    releases = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == pyproject()["version"]
