"""The core of the tests of a cluster is whole: one that is lost would be missed by nobody."""

import ast

from tests.bundle.repository import ROOT
from trainshed_api.syntax import parse_python

MODULE = parse_python((ROOT / "tests" / "e2e" / "test_core.py").read_text())


def test_the_core_has_its_14_tests() -> None:
    names = [node.name for node in MODULE.body if isinstance(node, ast.FunctionDef)]
    assert len([name for name in names if name.startswith("test_")]) == 14


def test_all_of_it_is_marked_as_the_core_and_nothing_is_expected_to_fail() -> None:
    source = ast.unparse(MODULE)
    [marks] = [
        ast.unparse(node.value)
        for node in MODULE.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    assert "pytest.mark.core" in marks
    assert "xfail" not in source
    assert "skip" not in source
