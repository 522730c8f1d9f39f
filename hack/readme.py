"""Writes the files that README.md shows into it again: `make fmt` runs it.

`tests/bundle/test_readme.py` fails when a block is out of date.
"""

import difflib
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
        before, *rest = text.split(f"```{language}\n")
        if len(rest) != 1:
            raise SystemExit(f"README.md has {len(rest)} {language} blocks, want one")
        _, fence, after = rest[0].partition("```\n")
        text = f"{before}```{language}\n{content}{fence}{after}"
    return text


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(fill(readme.read_text()))
