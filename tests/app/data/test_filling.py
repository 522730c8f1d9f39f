"""A cache is filled with the blocks that it had, however many CPUs there are to fill it."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import ray

from tests.app.data.builders_plan import FUNCTIONS, GROUPS, grouped_rows, make_plan, write_rows
from tests.app.ray_head import start_here
from trainshed.data.loader.arrow_blocks import from_block
from trainshed.data.loader.cache_fill import CacheFill
from trainshed.data.loader.fragment_counter import FragmentCounter
from trainshed.data.loader.object_store_cache import CachedBlocks, ObjectStoreCache
from trainshed.data.sampler.dataset_plan import DatasetPlan, OrderFingerprint
from trainshed.data.sampler.description import Described, describe, keep_order
from trainshed.data.sources.errors import DataError
from trainshed.ray_compat import execution

if TYPE_CHECKING:
    from pydantic import JsonValue

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

ROWS = 101


@pytest.fixture(scope="module")
def number(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that says how many rows the function makes."""
    return tmp_path_factory.mktemp("function") / "rows.txt"


@dataclass(frozen=True)
class Begun:
    """What a checkpoint says of rows where there was one CPU.

    Args:
        function: of those of a function.
        grouped: of those that go in groups, by where they come from.
    """

    function: Described
    grouped: dict[str, Described]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), [[40, 3], [58]])


@pytest.fixture(scope="module")
def all_begun(number: Path, folder: Path) -> Begun:
    number.write_text(str(ROWS))
    plan = make_function_plan(number)
    with start_here(cpus=1):
        execution.configure(1, {})
        told = described(plan)
        grouped = {name: described(each) for name, each in make_grouped(number, folder).items()}
    assert told.rows == ROWS
    return Begun(told, grouped)


@pytest.fixture(scope="module")
def begun(all_begun: Begun) -> Described:
    """What a checkpoint says of the function's rows where there was one CPU."""
    return all_begun.function


def described(plan: DatasetPlan) -> Described:
    """Fill the cache, and return what a checkpoint says of its rows."""
    told = describe(plan, CacheFill(plan, never)().counts)
    assert told
    return told


@pytest.fixture(scope="module", autouse=True)
def session(all_begun: Begun) -> Iterator[None]:
    with start_here(cpus=3):
        execution.configure(3, {})
        yield


def make_function_plan(number: Path) -> DatasetPlan:
    return make_plan(
        None,
        read={"use": f"{FUNCTIONS}:as_many_as", "options": {"file": str(number)}},
        shuffle={"mode": "blocks"},
    )


def make_grouped(number: Path, folder: Path) -> dict[str, DatasetPlan]:
    """Return plans of rows that go in groups: those of files, and those of a function."""
    made: dict[str, JsonValue] = {
        "use": f"{FUNCTIONS}:as_many_as",
        "options": {"file": str(number)},
    }
    return {
        "files": make_plan(folder, transforms=GROUPS),
        "function": make_plan(None, read=made, transforms=GROUPS),
    }


def going_on(plan: DatasetPlan, told: Described, *, mid_epoch: bool) -> DatasetPlan:
    plans, notes = keep_order({"train": plan}, {"train": told}, mid_pass={"train": mid_epoch})
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


@pytest.mark.parametrize("source", ["files", "function"])
def test_groups_are_the_same_in_blocks_of_the_same_rows_with_another_number_of_cpus(
    number: Path, folder: Path, all_begun: Begun, source: str
) -> None:
    number.write_text(str(ROWS))
    plan, told = make_grouped(number, folder)[source], all_begun.grouped[source]

    made = CacheFill(going_on(plan, told, mid_epoch=True), never)()

    want = grouped_rows(make_grouped(number, folder)["files"])
    tables = [from_block(ray.get(block)) for block in made.blocks]
    assert made.counts.tolist() == list(told.counts or ())
    assert np.concatenate([each["ids"] for each in tables]).tolist() == want["ids"].tolist()
    assert sorted(row for ids in want["ids"].tolist() for row in ids if row) == kept_rows()


def kept_rows() -> list[int]:
    """Return the rows that the groups have, by a loop."""
    users: dict[int, list[int]] = {}
    for row in range(1, ROWS, 2):
        users.setdefault(row % 7, []).append(row)
    by_time = [sorted(rows, key=lambda row: (-(row // 3), row)) for rows in users.values()]
    return sorted(row for rows in by_time for row in rows[1::2])


def test_groups_of_other_rows_are_refused_in_the_middle_of_an_epoch(
    number: Path, folder: Path, all_begun: Begun
) -> None:
    number.write_text("20")
    plan = make_grouped(number, folder)["function"]
    fill = CacheFill(going_on(plan, all_begun.grouped["function"], mid_epoch=True), never)

    with pytest.raises(DataError, match=r"got 3 rows in .* expected 7 rows in "):
        fill()


@pytest.mark.parametrize("source", ["files", "function"])
def test_a_function_of_rows_that_are_made_whole_is_named_where_it_fails(
    number: Path, folder: Path, source: str
) -> None:
    number.write_text(str(ROWS))
    broken: JsonValue = {"use": f"{FUNCTIONS}:broken", "kind": "groups", "by": ["id"]}
    plan = make_plan(folder, transforms=[broken])
    if source == "function":
        made: dict[str, JsonValue] = {
            "use": f"{FUNCTIONS}:as_many_as",
            "options": {"file": str(number)},
        }
        plan = make_plan(None, read=made, transforms=[{"use": f"{FUNCTIONS}:broken"}])

    with pytest.raises(DataError) as caught:
        ObjectStoreCache(plan.field, CacheFill(plan, never), threading.Lock()).get()

    want = f"transforms[0].use: {FUNCTIONS}:broken raised ValueError: row 0 is bad"
    assert str(caught.value) == f"{plan.field}.{want}"


def test_a_function_s_rows_are_cut_as_they_were_with_another_number_of_cpus(
    number: Path, begun: Described
) -> None:
    number.write_text(str(ROWS))
    plan = make_function_plan(number)
    fresh = CacheFill(plan, never)()
    assert begun.counts
    assert fresh.counts.tolist() != list(begun.counts)  # or this shows nothing

    made = CacheFill(going_on(plan, begun, mid_epoch=True), never)()
    assert made.counts.tolist() == list(begun.counts)
    assert ids_of(made) == cut(begun.counts)


def test_other_rows_of_a_function_are_refused_in_the_middle_of_an_epoch(
    number: Path, begun: Described
) -> None:
    number.write_text(str(ROWS + 1))
    fill = CacheFill(going_on(make_function_plan(number), begun, mid_epoch=True), never)
    with pytest.raises(DataError) as caught:
        fill()

    said = str(caught.value)
    assert said.startswith("spec.data.datasets.train: got 102 rows in ")
    assert "expected 101 rows in " in said
    assert "--fresh" in said


def test_other_rows_of_a_function_are_said_at_the_end_of_an_epoch_and_read(
    number: Path, begun: Described
) -> None:
    number.write_text(str(ROWS + 1))
    said: list[str] = []
    made = CacheFill(going_on(make_function_plan(number), begun, mid_epoch=False), said.append)()

    assert made.counts.sum() == ROWS + 1
    (note,) = said
    assert note.startswith("spec.data.datasets.train: 102 rows in ")


def test_other_rows_are_refused_where_lost_blocks_are_made_again(number: Path) -> None:
    number.write_text(str(ROWS))
    fill = CacheFill(make_function_plan(number), never)
    fill()
    number.write_text(str(ROWS - 1))
    with pytest.raises(DataError, match=r"got 100 rows in .* expected 101 rows in "):
        fill()


def make_odd(folder: Path) -> DatasetPlan:
    """Return a plan of which every second row of 10 in two files is left out: 2 and 3."""
    return make_plan(
        write_rows(folder, [[4], [6]]),
        cache="none",
        keeps_rows=False,
        transforms=[{"use": f"{FUNCTIONS}:odd_rows"}],
    )


@pytest.mark.parametrize("under_way", [False, True])
def test_rows_are_counted_again_where_no_epoch_hangs_on_them(
    tmp_path: Path, under_way: bool
) -> None:
    odd = make_odd(tmp_path / "rows")
    said: list[str] = []
    tally = FragmentCounter(
        replace(odd, kept=OrderFingerprint((4, 3), under_way)), threading.Lock(), said.append
    )

    assert tally.get().tolist() == ([4, 3] if under_way else [2, 3])
    assert len(said) == (not under_way)


def test_rows_that_a_first_epoch_had_counted_in_part_are_held_to_in_its_middle(
    tmp_path: Path,
) -> None:
    """A run that streamed them was suspended, and went on with `steps: known`."""
    odd = make_odd(tmp_path / "rows")
    changed = FragmentCounter(
        replace(odd, kept=OrderFingerprint((4, -1), under_way=True)), threading.Lock(), never
    )
    same = FragmentCounter(
        replace(odd, kept=OrderFingerprint((2, -1), under_way=True)), threading.Lock(), never
    )

    for _ in range(2):
        with pytest.raises(
            DataError, match=r"got 5 rows in 2 blocks .* expected 7 rows in 2 blocks"
        ):
            changed.get()
    assert same.get().tolist() == [2, 3]


def test_a_transform_that_leaves_rows_out_by_now_is_refused_in_the_middle_of_an_epoch(
    tmp_path: Path,
) -> None:
    rows = write_rows(tmp_path / "rows", [[4], [6]])
    told = describe(make_plan(rows, cache="objects"), None)
    assert told
    odd = make_plan(
        rows, cache="objects", transforms=[{"use": f"{FUNCTIONS}:odd_rows"}], keeps_rows=False
    )
    with pytest.raises(DataError, match=r"got 5 rows in 2 blocks .* expected 10 rows in 2 blocks"):
        CacheFill(going_on(odd, told, mid_epoch=True), never)()
