"""One order of rows for any number of workers, looked at through what ranks are fed."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

from tests.app.data.builders_plan import MemoryBlocks, make_pass, make_plan, shuffles, write_rows
from trainshed.data.loader.batches import Feed
from trainshed.data.sampler.batch_layout import BatchLayout, even_steps, exact_steps, training_steps
from trainshed.data.sampler.dataset_plan import DatasetPlan
from trainshed.data.sampler.epoch_pass import (
    EpochPass,
    first_read,
    steps_for,
    window_shift,
    windows_of,
)
from trainshed.data.sampler.permutation import SAME_SLOTS
from trainshed.data.sampler.shuffle_windows import ShuffleWindows, same_place

# Row groups of every size, none of them a multiple of a step; 81 rows, a smaller step at the end.
GROUPS = ([5, 11], [1, 30, 8], [26])
ROWS, BATCH = 81, 7
DIGEST_OF_ORDER_2 = "c10a9ead5ecd36e962ef7e610289cb6d355af516b924ef07d082671e0a93b05a"
SHUFFLES = shuffles(20)
CASES = [
    (mode, cache)
    for mode, cache in product(SHUFFLES, ("none", "objects", "workers"))
    if cache != "workers" or mode in ("none", "local")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), GROUPS)


def planned(folder: Path, mode: str, cache: str = "none", last: str = "keep") -> DatasetPlan:
    feed: JsonValue = {"lastBatch": last}
    return make_plan(folder, cache=cache, shuffle=SHUFFLES[mode], feed=feed)


def counting(plan: DatasetPlan, at: EpochPass) -> Iterator[list[int]]:
    """Yield the rows that count in each step that is left, slice after slice."""
    ranks = [
        Feed(plan, MemoryBlocks(plan, rank), rank).batches(at) for rank in range(at.world_size)
    ]
    for step in zip(*ranks, strict=True):
        yield [row for batch in step for row in batch.tensors["id"].tolist()[: batch.rows]]


def digest(steps: Sequence[Sequence[int]]) -> str:
    return hashlib.sha256(repr([list(step) for step in steps]).encode()).hexdigest()


@pytest.mark.parametrize("last", ["keep", "drop"])
@pytest.mark.parametrize("mode", SHUFFLES)
def test_every_step_has_the_same_rows_on_any_number_of_workers_and_fed_in_any_way(
    folder: Path, mode: str, last: str
) -> None:
    digests = {
        digest(list(counting(planned(folder, mode, cache, last), make_pass(**at))))  # type: ignore[arg-type]  # fields by name
        for shuffle, cache in CASES
        if shuffle == mode
        for at in ({"epoch": 2, "world_size": n, "batch_size": BATCH} for n in (1, 2, 3, 4))
    }

    assert len(digests) == 1


@pytest.mark.parametrize("seed", range(20))
def test_who_stops_anywhere_and_goes_on_with_any_number_of_workers_sees_each_row_once(
    folder: Path, seed: int
) -> None:
    drawn = np.random.default_rng(seed)
    mode = list(SHUFFLES)[seed % len(SHUFFLES)]
    plan = planned(folder, mode)
    whole = list(counting(plan, make_pass(epoch=1, batch_size=BATCH, seed=seed)))
    seen: list[list[int]] = []
    while len(seen) < len(whole):
        now = int(drawn.integers(1, 5))
        at = make_pass(epoch=1, first_step=len(seen), world_size=now, batch_size=BATCH, seed=seed)
        steps = counting(plan, at)
        seen += [next(steps) for _ in range(int(drawn.integers(1, len(whole) - len(seen) + 1)))]

    assert seen == whole
    assert sorted(row for step in seen for row in step) == list(range(ROWS))


@pytest.mark.parametrize("mode", SHUFFLES)
def test_who_goes_on_reads_at_most_a_window_that_is_done(folder: Path, mode: str) -> None:
    plan = planned(folder, mode)
    span = 3 if "local" in mode or "buffer" in mode else 1  # 20 rows of 7 a step
    for step in range(ROWS // BATCH + 1):
        at = make_pass(first_step=step, batch_size=BATCH)
        read = first_read(plan, at, steps_for(plan, at, ROWS))
        assert 0 <= step - read < span


def test_a_rank_keeps_its_rows_over_epochs_where_workers_may_cache_them(folder: Path) -> None:
    for mode in ("none", "local"):
        plan = planned(folder, mode)
        rows = [
            {
                row
                for batch in Feed(plan, MemoryBlocks(plan, 1), 1).batches(make_pass(epoch=epoch))
                for row in batch.tensors["id"].tolist()
            }
            for epoch in (0, 1)
        ]
        assert rows[0] == rows[1]


@pytest.mark.parametrize("shift", [0, 2])
def test_a_window_mixes_rows_over_its_steps_and_no_further(shift: int) -> None:
    steps = training_steps(1000, 10, 1, "drop", split=True)
    windows = ShuffleWindows(steps, 5, seed=0, epoch=0, shift=shift)
    begins = [windows.full_steps(number).start * 10 for number in windows.numbers(0)]
    order = np.concatenate(
        [begin + windows.order(number, 0) for number, begin in enumerate(begins)]
    )
    window = (np.arange(1000) // 10 + shift) // 5

    assert sorted(order.tolist()) == list(range(1000))
    assert (window[order] == window).all()
    assert (order % 10 == np.arange(1000) % 10).all()  # in its slot
    assert (order != np.arange(1000)).mean() > 0.7  # one of five stays by chance


@pytest.mark.parametrize("world_size", [1, 3])
def test_rows_that_a_step_is_between_meet_as_often_as_neighbours(
    tmp_path: Path, world_size: int
) -> None:
    """Rows with a period of the size of a batch were never in one batch, in no epoch."""
    batch, rows = 16, 2000
    shuffle: JsonValue = {"mode": "local", "bufferSize": 320}
    plan = make_plan(write_rows(tmp_path, [[rows]]), shuffle=shuffle)
    meetings = dict.fromkeys((1, batch, 2 * batch), 0)
    for epoch in range(8):
        at = make_pass(epoch=epoch, world_size=world_size, batch_size=batch)
        for step in counting(plan, at):
            for apart in meetings:
                meetings[apart] += len({row + apart for row in step} & set(step))

    # Of the 320 rows of a window, 15 others are in a row's batch: 4.7 %, less at its edges.
    for count in meetings.values():
        assert 0.03 < count / (8 * rows) < 0.06


def test_no_window_has_the_same_rows_in_all_epochs(folder: Path) -> None:
    plan = planned(folder, "local")
    windows = [
        windows_of(plan, at, steps_for(plan, at, ROWS))
        for at in (make_pass(epoch=epoch, batch_size=BATCH) for epoch in range(20))
    ]

    assert {each.first(5) for each in windows if each} == {4, 5}


def test_a_run_that_began_in_slots_goes_on_in_them(folder: Path) -> None:
    """The digest is that of the release that wrote order 2."""
    plan = replace(planned(folder, "local"), order=SAME_SLOTS)

    for world_size in (1, 3):
        steps = list(counting(plan, make_pass(epoch=2, world_size=world_size, batch_size=BATCH)))
        assert [sorted(row % BATCH for row in step) for step in steps[:-1]] == [[*range(BATCH)]] * (
            ROWS // BATCH
        )
        assert digest([sorted(step) for step in steps]) == DIGEST_OF_ORDER_2


def test_a_smaller_last_step_is_a_window_of_its_own() -> None:
    steps = training_steps(47, 10, 3, "keep", split=True)
    windows = ShuffleWindows(steps, 3, seed=0, epoch=0)

    assert [windows.rows(number, 0) for number in windows.numbers(0)] == [12, 4, 3]
    assert windows.order(2, 0).tolist() == [0, 1, 2]
    assert (windows.first(4), list(windows.numbers(4))) == (4, [2])


@pytest.mark.parametrize(
    "steps",
    [
        training_steps(83, 9, 4, "keep", split=True),
        training_steps(81, 9, 5, "keep", split=True),
        training_steps(82, 9, 5, "keep", split=True),
        exact_steps(82, 9, 5),
        even_steps(83, 9, 4, split=True),
        replace(training_steps(83, 9, 4, "keep", split=True), rotation=5),
        replace(training_steps(83, 9, 1, "keep", split=True), rotation=5),
        replace(training_steps(82, 9, 5, "keep", split=True), rotation=5),
        replace(training_steps(83, 9, 4, "keep", split=False), rotation=5),
    ],
    ids=str,
)
def test_which_rows_of_a_stretch_are_a_ranks_is_what_its_places_say(steps: BatchLayout) -> None:
    for rank in range(steps.world_size):
        places = steps.places(rank, 0, steps.count)
        assert len(places) == steps.sizes(rank).sum() == steps.rows_in(rank, 0, steps.count)
        for start, stop in product(range(0, steps.rows, 5), range(steps.rows, 0, -7)):
            if start < stop:
                found = np.arange(start, stop)[steps.within(rank, start, stop)]
                want = places[(start <= places) & (places < stop)]
                assert found.tolist() == want.tolist()


def test_where_every_rank_gets_all_rows_none_is_left_out_at_another_number() -> None:
    assert same_place(6, 12, 0, 0, before=3, now=2) == 4  # 24 rows on each side
    assert same_place(5, 12, 0, 0, before=3, now=2) == 3  # two rows come again


@pytest.mark.parametrize(("before", "now", "done"), [(1, 3, 10), (1, 2, 7), (2, 1, 9), (2, 2, 5)])
def test_where_every_rank_gets_all_rows_of_a_buffer_none_is_left_out(
    folder: Path, before: int, now: int, done: int
) -> None:
    shuffle: JsonValue = {"mode": "local", "bufferSize": 20}
    plan = make_plan(folder, shuffle=shuffle, split=False, cache="none", feed={"lastBatch": "keep"})

    def rows(at: EpochPass) -> list[list[int]]:
        batches = Feed(plan, MemoryBlocks(plan, 0), 0).batches(at)
        return [batch.tensors["id"].tolist() for batch in batches]

    at = make_pass(world_size=before, batch_size=6)
    shift = window_shift(plan, at.seed, at.epoch)
    there = same_place(done, 6, plan.shuffle_buffer_rows, shift, before, now)
    seen = [*rows(at)[:done], *rows(replace(at, world_size=now, first_step=there))]
    assert {row for step in seen for row in step} == set(range(ROWS))


@pytest.mark.parametrize(
    ("shuffle", "rows"),
    [
        ({"mode": "local"}, 10_000),
        ({"mode": "local", "bufferSize": 30}, 30),
        ({"mode": "none", "bufferSize": 30}, 30),
        ({"mode": "files", "bufferSize": 30}, 30),
        ({"mode": "files", "bufferSize": 0}, 0),
        ({"mode": "global", "bufferSize": 30}, 0),
        # A default that a cluster fills in.
        ({"mode": "none", "bufferSize": 10_000}, 0),
        ({"mode": "blocks", "bufferSize": 10_000}, 0),
    ],
)
def test_a_buffer_is_what_somebody_asked_for(
    folder: Path, shuffle: dict[str, JsonValue], rows: int
) -> None:
    assert make_plan(folder, shuffle=shuffle).shuffle_buffer_rows == rows
