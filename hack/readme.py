"""Writes the files that README.md shows into it again: `make fmt` runs it.

A block follows a line that names its source; `tests/bundle/test_readme.py` fails when
one of them is out of date.
"""

import difflib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def adoption_diff() -> str:
    """Return what changes between examples/adopt/before.py and after.py, as `diff -u` says it."""
    before, after = (
        (ROOT / "examples" / "adopt" / name).read_text().splitlines(keepends=True)
        for name in ("before.py", "after.py")
    )
    return "".join(difflib.unified_diff(before, after, "before.py", "after.py"))


def fill(text: str) -> str:
    """Return README.md with its yaml and diff blocks as the files have them."""
    blocks = {
        "yaml": (ROOT / "manifests" / "trainingrun.yaml").read_text(),
        "diff": adoption_diff(),
    }
    for language, content in blocks.items():
        pattern = re.compile(rf"^```{language}\n.*?^```$", re.DOTALL | re.MULTILINE)
        block = f"```{language}\n{content}```"
        text, found = pattern.subn(lambda _, block=block: block, text)
        if found != 1:
            raise SystemExit(f"README.md has {found} {language} blocks, want one")
    return text


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(fill(readme.read_text()))
