"""Links between pages lead to files and headings that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.bundle.repository import ROOT

NAMES = ("README.md", "AGENTS.md", "CONTRIBUTING.md", "UPGRADE.md", "charts/trainshed/README.md")
PAGES = [ROOT / name for name in NAMES]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


def test_links_lead_to_files_and_headings() -> None:
    broken = {f"{page.relative_to(ROOT)}: {link}" for page in PAGES for link in _broken(page)}

    assert broken == set()


def _broken(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)[^)]*\)", page.read_text("utf-8")):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            yield link


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}
