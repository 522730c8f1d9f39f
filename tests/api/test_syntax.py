"""Trees are whole whatever a garbage collection would run in their middle."""

import ast
import contextlib
import gc
from collections.abc import Iterator

import pytest

from trainshed_api.syntax import parse_python

SOURCE = "\n".join(f"a{number} = [f(x) for x in range({number})]" for number in range(200))


@pytest.fixture
def parses_at_each_collection() -> Iterator[None]:
    def parse(phase: str, info: dict[str, int]) -> None:
        ast.parse("(((1)))")

    thresholds = gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(50, 10, 10)
    try:
        yield
    finally:
        gc.callbacks.remove(parse)
        gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("parses_at_each_collection")
def test_a_collection_that_parses_breaks_no_tree() -> None:
    assert len(parse_python(SOURCE).body) == 200


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("source", ["a = 1", "a ="])
def test_collection_is_afterwards_as_it_was(source: str, collects: bool) -> None:
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with contextlib.suppress(SyntaxError):
            parse_python(source)
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()


def test_one_expression_is_parsed_as_such() -> None:
    assert ast.dump(parse_python("1", "eval").body) == "Constant(value=1)"
