"""A cache is filled with the blocks that it had, however many CPUs there are to fill it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import ray

from tests.app.data.builders_plan import FUNCTIONS, make_plan, write_rows
from tests.app.ray_head import start_here
from trainshed.data.feed.cache import CachedBlocks
from trainshed.data.feed.datasets import from_block
from trainshed.data.feed.filling import Filling
from trainshed.data.order.description import Described, describe, keep_order
from trainshed.data.order.plan import DatasetPlan
from trainshed.data.read.errors import DataError
from trainshed.ray_seams import execution

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

ROWS = 101


@pytest.fixture(scope="module")
def number(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that says how many rows the function makes."""
    return tmp_path_factory.mktemp("function") / "rows.txt"


@pytest.fixture(scope="module")
def begun(number: Path) -> Described:
    """What a checkpoint says of the function's rows where there was one CPU."""
    number.write_text(str(ROWS))
    plan = make_function_plan(number)
    with start_here(cpus=1):
        execution.configure(1, {})
        told = describe(plan, Filling(plan, never)().counts)
    assert told
    assert told.rows == ROWS
    return told


@pytest.fixture(scope="module", autouse=True)
def session(begun: Described) -> Iterator[None]:
    with start_here(cpus=3):
        execution.configure(3, {})
        yield


def make_function_plan(number: Path) -> DatasetPlan:
    return make_plan(
        None,
        read={"use": f"{FUNCTIONS}:as_many_as", "options": {"file": str(number)}},
        shuffle={"mode": "blocks"},
    )


def going_on(plan: DatasetPlan, told: Described, *, mid_epoch: bool) -> DatasetPlan:
    plans, notes = keep_order({"train": plan}, {"train": told}, mid_epoch=mid_epoch)
    assert notes == []
    return plans["train"]


def never(message: str) -> None:
    raise AssertionError(message)


def ids_of(made: CachedBlocks) -> list[list[int]]:
    """Return the rows of each block."""
    return [from_block(ray.get(block))["id"].tolist() for block in made.blocks]


def cut(counts: Sequence[int]) -> list[list[int]]:
    """Return the rows of the function in blocks of so many."""
    ends = np.cumsum(counts)
    return [rows.tolist() for rows in np.split(np.arange(ends[-1]), ends[:-1])]


def test_a_function_s_rows_are_cut_as_they_were_with_another_number_of_cpus(
    number: Path, begun: Described
) -> None:
    number.write_text(str(ROWS))
    plan = make_function_plan(number)
    fresh = Filling(plan, never)()
    assert begun.counts
    assert fresh.counts.tolist() != list(begun.counts)  # or this shows nothing

    made = Filling(going_on(plan, begun, mid_epoch=True), never)()
    assert made.counts.tolist() == list(begun.counts)
    assert ids_of(made) == cut(begun.counts)


def test_other_rows_of_a_function_are_refused_in_the_middle_of_an_epoch(
    number: Path, begun: Described
) -> None:
    number.write_text(str(ROWS + 1))
    fill = Filling(going_on(make_function_plan(number), begun, mid_epoch=True), never)
    with pytest.raises(DataError) as caught:
        fill()

    said = str(caught.value)
    assert said.startswith("spec.data.datasets.train: got 102 rows in ")
    assert "want 101 rows in " in said
    assert "--fresh" in said


def test_other_rows_of_a_function_are_said_at_the_end_of_an_epoch_and_read(
    number: Path, begun: Described
) -> None:
    number.write_text(str(ROWS + 1))
    said: list[str] = []
    made = Filling(going_on(make_function_plan(number), begun, mid_epoch=False), said.append)()

    assert made.counts.sum() == ROWS + 1
    (note,) = said
    assert note.startswith("spec.data.datasets.train: 102 rows in ")


def test_other_rows_are_refused_where_lost_blocks_are_made_again(number: Path) -> None:
    number.write_text(str(ROWS))
    fill = Filling(make_function_plan(number), never)
    fill()
    number.write_text(str(ROWS - 1))
    with pytest.raises(DataError, match=r"got 100 rows in .* want 101 rows in "):
        fill()


def test_a_transform_that_leaves_rows_out_by_now_is_refused_in_the_middle_of_an_epoch(
    tmp_path: Path,
) -> None:
    rows = write_rows(tmp_path / "rows", [[4], [6]])
    told = describe(make_plan(rows, cache="objects"), None)
    assert told
    odd = make_plan(
        rows, cache="objects", transforms=[{"use": f"{FUNCTIONS}:odd_rows"}], keeps_rows=False
    )
    with pytest.raises(DataError, match=r"got 5 rows in 2 blocks .* want 10 rows in 2 blocks"):
        Filling(going_on(odd, told, mid_epoch=True), never)()
