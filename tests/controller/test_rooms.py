"""kopf stands in one file, the Kubernetes client in another, and no file is too long to read."""

import ast
from pathlib import Path

import pytest

from trainshed_api.syntax import parse_python

ROOM = Path(__file__).parents[2] / "controller" / "trainshed_controller"
FILES = sorted(ROOM.glob("*.py"))


def imported(file: Path) -> set[str]:
    """Return the first part of each name that a file imports."""
    found = set()
    for node in ast.walk(parse_python(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize(
    ("library", "place"), [("kopf", "operator.py"), ("kubernetes", "connection.py")]
)
def test_library_is_imported_by_one_file(library: str, place: str) -> None:
    assert [file.name for file in FILES if library in imported(file)] == [place]


def test_no_file_is_longer_than_400_lines() -> None:
    assert [f.name for f in FILES if len(f.read_text().splitlines()) > 400] == []
