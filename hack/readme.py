"""Writes files into the pages that show them: `make fmt` runs it.

`tests/bundle/test_readme.py` fails when a block is out of date.
"""

import difflib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The pages that show a file, and the language of the block.
SHOWN = {"README.md": "yaml", "docs/training.md": "diff"}


def adoption_diff() -> str:
    """Return the difference of examples/adopt/before.py and after.py, as `diff -u` prints it."""
    before, after = (
        (ROOT / "examples" / "adopt" / name).read_text().splitlines(keepends=True)
        for name in ("before.py", "after.py")
    )
    return "".join(difflib.unified_diff(before, after, "before.py", "after.py"))


def fill(page: str, text: str) -> str:
    """Return the text of a page with its block as the files have it."""
    language = SHOWN[page]
    before, *rest = text.split(f"```{language}\n")
    if len(rest) != 1:
        raise SystemExit(f"{page}: got {len(rest)} {language} blocks; expected one.")
    _, fence, after = rest[0].partition("```\n")
    content = adoption_diff() if language == "diff" else _sample()
    return f"{before}```{language}\n{content}{fence}{after}"


def _sample() -> str:
    return (ROOT / "manifests" / "trainingrun.yaml").read_text()


if __name__ == "__main__":
    for page in SHOWN:
        path = ROOT / page
        path.write_text(fill(page, path.read_text()))
