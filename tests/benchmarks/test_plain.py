"""The plain sides do not import Trainshed."""

import ast
from pathlib import Path

import pytest

from tests.bundle.repository import ROOT
from trainshed_api.syntax import parse_python

PLAIN = sorted((ROOT / "benchmarks" / "plain").glob("*.py"))
OURS = {"trainshed", "trainshed_api", "benchmarks", "examples", "tests"}


def imported_modules(source: str) -> set[str]:
    """Return the dotted names of all modules that a file imports, also within functions."""
    found: set[str] = set()
    for node in ast.walk(parse_python(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # `from . import x` has no module, only dots.
            found.add("." * node.level + (node.module or ""))
    return found


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.stem)
def test_a_plain_side_does_not_import_trainshed(file: Path) -> None:
    foreign = {
        name
        for name in imported_modules(file.read_text(encoding="utf-8"))
        if name.split(".")[0] in {*OURS, ""} and not name.startswith("benchmarks.plain.")
    }
    assert foreign == set()


def test_plain_sides_exist() -> None:
    assert {"torchrun_ddp", "ray_data", "ray_empty", "in_memory"} <= {file.stem for file in PLAIN}


def test_imports_within_functions_are_found() -> None:
    source = "import a.b\nfrom . import c\ndef f():\n    from trainshed import d\n    import e\n"
    assert imported_modules(source) == {"a.b", ".", "trainshed", "e"}
