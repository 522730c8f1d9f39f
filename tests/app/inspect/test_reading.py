"""Fragments are read in their order, by this process or by others."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.app.data.builders_formats import write_csv
from tests.app.inspect.builders import select
from tests.app.inspect.functions import die, name_of
from trainshed.data.sampler.fragments import Fragment
from trainshed.failures import InfrastructureError
from trainshed.inspect.reading import FEW_BYTES, first_rows, in_order, samples


def make_fragments(count: int) -> Sequence[Fragment]:
    """Return fragments that are too large together to be left to one process."""
    size = FEW_BYTES // count + 1
    return [Fragment(f"part-{number}", number, (), None, size) for number in range(count)]


def test_other_processes_keep_the_order() -> None:
    fragments = make_fragments(7)
    named = list(in_order(name_of, fragments, 2, 3))
    assert [name for name, _ in named] == [fragment.path for fragment in fragments]
    processes = {process for _, process in in_order(name_of, fragments, 1, 3)}
    assert len(processes) == 1
    assert not processes & {process for _, process in named}


def test_a_process_that_is_killed_is_the_worlds_fault() -> None:
    with pytest.raises(InfrastructureError, match="Use fewer --processes") as failed:
        list(in_order(die, make_fragments(3), 2, 3))
    assert failed.value.kind == "killed"


def test_first_rows_come_over_the_ends_of_files_and_past_those_without(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 3)
    write_csv(tmp_path / "b.csv", 3, 0)
    write_csv(tmp_path / "c.csv", 3, 9)
    chosen = select(tmp_path, "csv")
    assert [row["id"] for row in first_rows(chosen, 5)] == [0, 1, 2, 3, 4]
    assert [row["id"] for row in first_rows(select(tmp_path, "csv", "keep_even"), 4)] == [
        0,
        2,
        4,
        6,
    ]
    assert len(list(first_rows(chosen, 99))) == 12
    assert len(samples(chosen)) == 2
