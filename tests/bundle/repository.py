"""The repository as the tests of this folder read it."""

import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@cache
def tracked_files() -> tuple[Path, ...]:
    """Return what git knows of; a copy without git skips the test."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=30
    )
    paths = (ROOT / name for name in listing.stdout.decode().split("\0") if name)
    # A file that is removed but not yet committed is still listed.
    return tuple(path for path in paths if path.is_file())


def read_text(path: Path) -> str | None:
    """Return the text of a file, or None for bytes such as a picture."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@cache
def pyproject() -> dict[str, object]:
    """Return the [project] table of pyproject.toml."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    table: dict[str, object] = document["project"]
    return table
