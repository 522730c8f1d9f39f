"""A task that is given up is interrupted once it has imported what it needs."""

import _thread
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainshed.ray_seams.interrupts import next_unbroken


def interrupted() -> str:
    """Be interrupted, which shows as soon as Python looks for signals."""
    _thread.interrupt_main()
    return "rows".lower()


def test_an_import_for_the_first_block_is_over_when_its_task_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{tmp_path.name}_module"
    # As torch, it can be imported once.
    lines = (f"import os; os.mkdir({str(tmp_path / 'once')!r})", f"import {__name__} as test")
    text = "\n".join([*lines, "rows = test.interrupted()"])
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def blocks() -> Iterator[str]:
        yield importlib.import_module(name).rows

    with pytest.raises(KeyboardInterrupt):
        next_unbroken(name, blocks())

    assert next_unbroken(name, blocks()) == "rows"


def test_blocks_after_the_first_are_interrupted_at_once() -> None:
    made = []

    def blocks() -> Iterator[int]:
        for number in range(3):
            made.append(number)
            yield number
            interrupted()
            made.append(-1)

    coming = blocks()
    assert next_unbroken("rows", coming) == 0
    with pytest.raises(KeyboardInterrupt):
        next_unbroken("rows", coming)
    assert made == [0]


def test_the_end_of_what_comes_is_nothing() -> None:
    assert next_unbroken("none", iter([])) is None
    assert next_unbroken("none", iter([])) is None
