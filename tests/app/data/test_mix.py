"""Datasets in turn by weight, and epochs that go on where the last one stopped."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.app.data.builders_plan import (
    FUNCTIONS,
    make_mix,
    make_pass,
    make_plan,
    write_rows,
)
from trainshed.data.loader.batches import Feed
from trainshed.data.loader.row_sources import LocalSource
from trainshed.data.sampler.dataset_plan import DatasetPlan, main_dataset
from trainshed.data.sampler.epoch_pass import EpochPass, order_of
from trainshed.data.sampler.mixing import (
    PERIOD,
    RUN,
    Concatenated,
    Interleave,
    MixedOrder,
    gathered,
)
from trainshed.data.sources.errors import DataError

# Rows of the first dataset have the ids 0 to 60, those of the second 1000 to 1022.
FIRST, SECOND = 61, 23
BATCH = 10
WEIGHTS = st.lists(st.floats(0.001, 1000), min_size=1, max_size=5).filter(
    lambda weights: min(weights) > 0.001 * sum(weights)
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    first = write_rows(tmp_path_factory.mktemp("first"), ([5, 11], [1, 30, 8], [6]))
    return first, write_rows(tmp_path_factory.mktemp("second"), ([7, 4], [12]), first=1000)


def mixed(folders: tuple[Path, Path], mode: str = "blocks", **fields: JsonValue) -> DatasetPlan:
    """Return three rows of the first dataset for one of the second."""
    first, second = (make_plan(folder, shuffle={"mode": mode}, cache="none") for folder in folders)
    keep: JsonValue = {"lastBatch": "keep"}
    return make_mix({"a": (first, 3), "b": (second, 1)}, feed=keep, **fields)


def steps_of(plan: DatasetPlan, at: EpochPass) -> list[list[int]]:
    """Return the ids of the rows that count in each step that is left, slice after slice."""
    ranks = [Feed(plan, LocalSource(plan), rank).batches(at) for rank in range(at.world_size)]
    return [
        [row for batch in step for row in batch.tensors["id"].tolist()[: batch.rows]]
        for step in zip(*ranks, strict=True)
    ]


def rows_of(plan: DatasetPlan, epochs: int) -> list[int]:
    """Return the ids of all epochs."""
    passes = [make_pass(epoch=epoch, batch_size=BATCH) for epoch in range(epochs)]
    return [row for each in passes for step in steps_of(plan, each) for row in step]


@given(weights=WEIGHTS, start=st.integers(0, 3 * PERIOD), rows=st.integers(1, 5000))
def test_each_stretch_of_rows_has_of_each_dataset_what_its_weight_says(
    weights: list[float], start: int, rows: int
) -> None:
    found = Counter(Interleave(tuple(weights)).sources(np.arange(start, start + rows)).tolist())

    for source, weight in enumerate(weights):
        share = rows * weight / sum(weights)
        assert abs(found[source] - share) <= 2 * RUN + rows / PERIOD * len(weights)


@given(weights=WEIGHTS, places=st.lists(st.integers(0, 2 * PERIOD), min_size=1, max_size=20))
def test_how_many_rows_come_before_a_place_is_what_counting_says(
    weights: list[float], places: list[int]
) -> None:
    pattern = Interleave(tuple(weights))
    sources = pattern.sources(np.arange(max(places), dtype=np.int64))

    for source in range(len(weights)):
        counted = [int((sources[:place] == source).sum()) for place in places]
        assert pattern.before(source, np.asarray(places)).tolist() == counted


@pytest.mark.parametrize(
    "pattern", [Interleave((0.7, 0.2, 0.1)), Concatenated((20, 50, 40))], ids=str
)
def test_rows_gathered_by_dataset_are_put_back_in_their_order(
    pattern: Interleave | Concatenated,
) -> None:
    sources = pattern.sources(np.arange(13, 77, dtype=np.int64))
    by_dataset = np.sort(sources)

    assert by_dataset[gathered(pattern, 13, 77)].tolist() == sources.tolist()


def test_a_mix_has_of_each_dataset_its_share_and_no_row_again_before_all_were_given(
    folders: tuple[Path, Path],
) -> None:
    rows = rows_of(mixed(folders), epochs=4)
    taken: dict[str, list[int]] = {"a": [], "b": []}
    for row in rows:
        taken["b" if row >= 1000 else "a"].append(row)

    assert len(rows) == 4 * (FIRST + SECOND)
    assert len(taken["a"]) == pytest.approx(3 * len(taken["b"]), abs=RUN)
    for name, size, ids in (("a", FIRST, range(FIRST)), ("b", SECOND, range(1000, 1023))):
        rounds = [taken[name][begin : begin + size] for begin in range(0, len(taken[name]), size)]
        assert all(sorted(each) == list(ids) for each in rounds[:-1])
        # Of two files the one that comes first is the same every other time.
        assert name == "b" or len(set(map(tuple, rounds[:-1]))) > 1, "another order each time"


@pytest.mark.parametrize("mode", ["none", "files", "blocks"])
@pytest.mark.parametrize("buffer", [0, 25])
def test_a_mix_has_the_same_rows_on_any_number_of_workers_and_from_any_step_on(
    folders: tuple[Path, Path], mode: str, buffer: int
) -> None:
    plan = mixed(folders, mode, shuffle={"bufferSize": buffer})
    at = make_pass(epoch=2, world_size=1, batch_size=BATCH)
    whole = steps_of(plan, at)

    for ranks in (2, 3, 4):
        assert steps_of(plan, replace(at, world_size=ranks)) == whole
    for step in range(1, len(whole)):
        left = replace(at, world_size=1 + step % 3, first_step=step)
        assert steps_of(plan, left) == whole[step:]


def test_an_epoch_of_some_rows_goes_on_where_the_last_one_stopped(
    folders: tuple[Path, Path],
) -> None:
    plan = make_plan(
        folders[0],
        rowsPerEpoch=20,
        shuffle={"mode": "files", "bufferSize": 10},
        feed={"lastBatch": "keep"},
    )
    rows = rows_of(plan, epochs=6)

    assert plan.cache != "workers"
    assert len(rows) == 6 * 20
    assert len(set(rows[:60])) == 60, "none comes again before all were given"
    assert rows[:60] != rows[60:]


def test_more_rows_an_epoch_than_there_are_come_round_again(folders: tuple[Path, Path]) -> None:
    plan = make_plan(folders[1], rowsPerEpoch=3 * SECOND, feed={"lastBatch": "keep"})

    assert Counter(rows_of(plan, epochs=1)) == dict.fromkeys(range(1000, 1023), 3)


def test_a_row_that_comes_again_in_an_epoch_is_augmented_anew(folders: tuple[Path, Path]) -> None:
    augment: JsonValue = [{"use": f"{FUNCTIONS}:noise"}]
    plan = make_plan(
        folders[1],
        rowsPerEpoch=2 * SECOND,
        augment=augment,
        feed={"lastBatch": "keep"},
    )
    batches = list(
        Feed(plan, LocalSource(plan), 0).batches(make_pass(world_size=1, batch_size=BATCH))
    )
    drawn = {
        (int(row), float(draw))
        for b in batches
        for row, draw in zip(b.tensors["id"], b.tensors["draw"], strict=True)
    }

    assert len(drawn) > 1.8 * SECOND


@pytest.mark.parametrize("ranks", [1, 3])
def test_an_evaluation_of_a_mix_sees_every_row_of_all_datasets_once(
    folders: tuple[Path, Path], ranks: int
) -> None:
    plan = mixed(folders, rowsPerEpoch=10)
    steps = steps_of(plan, make_pass("exact", world_size=ranks, batch_size=BATCH))

    assert [row for step in steps for row in step] == [*range(FIRST), *range(1000, 1023)]


def test_rows_that_no_step_takes_are_left_for_the_next_epoch(folders: tuple[Path, Path]) -> None:
    plan = make_plan(folders[0], rowsPerEpoch=25)
    rows = rows_of(plan, epochs=6)

    assert rows[:FIRST] == list(range(FIRST)), "20 rows an epoch, none left out"


def test_a_dataset_of_small_weight_has_its_turn_in_short_epochs(
    folders: tuple[Path, Path],
) -> None:
    first, second = (make_plan(folder, cache="none") for folder in folders)
    plan = make_mix({"a": (first, 99), "b": (second, 1)}, rowsPerEpoch=30)

    assert sum(row >= 1000 for row in rows_of(plan, epochs=40)) == pytest.approx(12, abs=3)


def test_a_mix_is_the_same_in_whatever_order_its_datasets_are_written(
    folders: tuple[Path, Path],
) -> None:
    first, second = (make_plan(folder, cache="none") for folder in folders)
    one = make_mix({"a": (first, 1), "b": (second, 2)})
    other = make_mix({"b": (second, 2), "a": (first, 1)})

    assert rows_of(one, epochs=2) == rows_of(other, epochs=2)


def test_datasets_of_a_mix_are_shuffled_and_augmented_each_by_itself(
    folders: tuple[Path, Path],
) -> None:
    augment: JsonValue = [{"use": f"{FUNCTIONS}:noise"}]
    twin = make_plan(folders[0], cache="none", shuffle={"mode": "blocks"}, augment=augment)
    plan = make_mix({"a": (twin, 1), "b": (twin, 1)})
    (batch,) = Feed(plan, LocalSource(plan), 0).batches(make_pass(world_size=1, batch_size=122))
    drawn: dict[int, set[float]] = {}
    for row, draw in zip(batch.tensors["id"], batch.tensors["draw"], strict=True):
        drawn.setdefault(int(row), set()).add(float(draw))

    assert sum(len(each) == 2 for each in drawn.values()) > 50
    order = order_of(plan, make_pass(), *(part.counts for part in plan.parts))
    assert isinstance(order, MixedOrder)
    first, second = (base(0).order.tolist() for base in order.bases)
    assert first != second


def test_a_rank_with_one_slot_of_a_step_meets_all_datasets(folders: tuple[Path, Path]) -> None:
    first, second = (make_plan(folder, cache="none") for folder in folders)
    plan = make_mix({"a": (first, 3), "b": (second, 1)}, rowsPerEpoch=400)
    feed = Feed(plan, LocalSource(plan), 2)
    rows = [
        int(batch.tensors["id"][0]) for batch in feed.batches(make_pass(world_size=4, batch_size=4))
    ]

    assert sum(row >= 1000 for row in rows) == pytest.approx(25, abs=15)


def test_a_part_of_a_mix_is_not_the_one_that_steps_are_taken_of(
    folders: tuple[Path, Path],
) -> None:
    part = replace(make_plan(folders[0]), name="a")
    mix = replace(make_mix({"a": (part, 1)}), name="both")

    assert main_dataset({"a": part, "both": mix}) == "both"


def test_datasets_with_other_columns_are_not_mixed(folders: tuple[Path, Path]) -> None:
    summed: JsonValue = [{"use": f"{FUNCTIONS}:row_sum", "kind": "rows"}]
    parts = {
        "a": (make_plan(folders[0]), 1.0),
        "b": (make_plan(folders[1], transforms=summed), 1.0),
    }
    with pytest.raises(
        DataError,
        match=r"\.mix: .* columns id int64, x float32\[3\], .* id int64, sum float32; expected",
    ):
        steps_of(make_mix(parts), make_pass(world_size=1, batch_size=BATCH))
