import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue
from typing_extensions import override

from tests.app.data.builders_plan import (
    FUNCTIONS,
    MemoryBlocks,
    make_pass,
    make_plan,
    shuffles,
    write_rows,
)
from trainshed.data.loader import buffer_pool
from trainshed.data.loader.batches import Batch, Feed
from trainshed.data.loader.row_sources import LocalSource
from trainshed.data.sampler.dataset_plan import DatasetPlan
from trainshed.data.sampler.epoch_pass import EpochPass
from trainshed.data.sampler.permutation import RowRange
from trainshed.data.sources.column_arrays import Columns
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.fragment_reader import Choice

# Two files and a third one, row groups of every size, none of them a multiple of a batch.
GROUPS = ([5, 11], [1, 30, 8], [26])
ROWS = 81
SECONDS = 10
AUGMENTS: JsonValue = [{"use": f"{FUNCTIONS}:noise"}]
SHUFFLES = shuffles(13)
CACHES = ("none", "objects", "workers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), GROUPS)


def caches(mode: str) -> Iterator[str]:
    """Yield the caches of a mode; a worker cannot keep rows that move."""
    return (each for each in CACHES if each != "workers" or mode in ("none", "local"))


def batches_of(plan: DatasetPlan, at: EpochPass, rank: int) -> list[Batch]:
    return list(Feed(plan, MemoryBlocks(plan, rank), rank).batches(at))


def as_numbers(batches: list[Batch]) -> list[tuple[list[float], ...]]:
    return [
        tuple(batch.tensors[name].flatten().tolist() for name in ("id", "x", "draw"))
        for batch in batches
    ]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("mode", SHUFFLES)
def test_every_cache_gives_the_same_batches(folder: Path, mode: str, split: bool) -> None:
    at = make_pass(epoch=3)
    seen = {}
    for cache in caches(mode):
        plan = make_plan(
            folder,
            row_bytes=2**20,
            cache=cache,
            shuffle=SHUFFLES[mode],
            augment=AUGMENTS,
            split=split,
        )
        seen[cache] = [as_numbers(batches_of(plan, at, rank)) for rank in (0, 1)]
    reference = seen.pop("none")
    assert [len(batches) for batches in reference] == [10 if split else 20] * 2
    for cache, batches in seen.items():
        assert batches == reference, cache


class CountedTables(MemoryBlocks):
    """Counts the tables that a worker takes."""

    taken = 0

    @override
    def stream(
        self, at: EpochPass, pieces: list[RowRange], place: int, choice: Choice
    ) -> Iterator[Columns]:
        for columns in super().stream(at, pieces, place, choice):
            self.taken += 1
            yield columns


def test_a_worker_that_keeps_its_rows_trains_while_they_arrive(folder: Path) -> None:
    feed: JsonValue = {"prefetchBatches": 0}
    plan = make_plan(folder, cache="workers", shuffle={"mode": "none"}, feed=feed)
    blocks = CountedTables(plan, rank=0)
    made = Feed(plan, blocks, 0)

    first = made.batches(make_pass())
    next(first)
    assert blocks.taken == 1

    list(first)
    taken = blocks.taken
    assert taken > 1
    list(made.batches(make_pass(epoch=1)))
    assert blocks.taken == taken


BUILT_IN: JsonValue = {"use": "trainshed.transforms:rename", "options": {"columns": {"x": "y"}}}
NOISE = f"{FUNCTIONS}:noise"


@dataclass
class Kept:
    """A dataset that workers keep, and whether all rows are made before the first is used."""

    is_filled: bool
    transforms: list[JsonValue] = field(default_factory=list)
    read: dict[str, JsonValue] = field(default_factory=dict)
    on_bad_record: str = "fail"


KEPT = {
    "rows that files tell": Kept(is_filled=False),
    "a transform of single rows": Kept(False, [{"use": NOISE, "kind": "rows"}]),
    "a transform of ours": Kept(False, [BUILT_IN]),
    "a transform that may leave rows out": Kept(True, [{"use": NOISE}]),
    "a condition": Kept(is_filled=True, read={"where": "id > 3"}),
    "bad records": Kept(is_filled=True, on_bad_record="skip"),
}


@pytest.mark.parametrize("name", KEPT)
def test_workers_wait_for_rows_whose_number_only_making_them_tells(folder: Path, name: str) -> None:
    case = KEPT[name]

    plan = make_plan(
        folder,
        cache="workers",
        shuffle={"mode": "none"},
        transforms=case.transforms,
        read=case.read,
        onBadRecord=case.on_bad_record,
    )

    assert plan.is_filled == case.is_filled


@pytest.mark.parametrize("mode", SHUFFLES)
def test_a_worker_that_reads_for_itself_has_the_same_batches(folder: Path, mode: str) -> None:
    for cache in caches(mode):
        plan = make_plan(
            folder, row_bytes=2**20, cache=cache, shuffle=SHUFFLES[mode], augment=AUGMENTS
        )
        for at in (make_pass(epoch=3), make_pass(epoch=3, first_step=4)):
            own = list(Feed(plan, LocalSource(plan), 1).batches(at))
            assert as_numbers(own) == as_numbers(batches_of(plan, at, 1)), cache


@pytest.mark.parametrize(
    ("mode", "cache"), [(mode, cache) for mode in SHUFFLES for cache in caches(mode)]
)
def test_a_resumed_pass_gives_the_rest_of_it(folder: Path, mode: str, cache: str) -> None:
    plan = make_plan(
        folder,
        row_bytes=2**20,
        cache=cache,
        shuffle=SHUFFLES[mode],
        augment=AUGMENTS,
        feed={"lastBatch": "keep"},
    )
    for rank in (0, 1, 2):
        whole = as_numbers(batches_of(plan, make_pass(world_size=3, epoch=1), rank))
        for step in (1, 4, len(whole) - 1, len(whole)):
            at = make_pass(world_size=3, epoch=1, first_step=step)
            assert as_numbers(batches_of(plan, at, rank)) == whole[step:], step


@pytest.mark.parametrize(
    ("mode", "split", "last"), list(product(SHUFFLES, [True, False], ["drop", "keep"]))
)
def test_a_pass_has_every_row_once(folder: Path, mode: str, split: bool, last: str) -> None:
    plan = make_plan(
        folder, cache="none", shuffle=SHUFFLES[mode], split=split, feed={"lastBatch": last}
    )
    ids = [
        np.concatenate(
            [
                batch.tensors["id"].numpy()[: batch.rows]
                for batch in batches_of(plan, make_pass(), r)
            ]
        )
        for r in (0, 1)
    ]
    dropped = {"drop": 1, "keep": 0}[last]
    rows = np.concatenate(ids) if split else ids[0]
    assert len(rows) == len(set(rows.tolist())) == ROWS - dropped
    assert split or sorted(ids[0]) == sorted(ids[1])


def test_epochs_differ_where_rows_are_mixed_and_only_there(folder: Path) -> None:
    for mode, shuffle in SHUFFLES.items():
        plan = make_plan(folder, cache="none", shuffle=shuffle)
        first, second = (
            [batch.tensors["id"].tolist() for batch in batches_of(plan, make_pass(epoch=e), 0)]
            for e in (0, 1)
        )
        assert (first == second) == (mode == "none"), mode


def test_an_exact_pass_has_every_row_once_in_any_mode_and_no_augmentation(folder: Path) -> None:
    for mode, shuffle in SHUFFLES.items():
        plan = make_plan(folder, cache="none", shuffle=shuffle, augment=AUGMENTS)
        at = make_pass("exact", world_size=3, batch_size=40)
        batches = [batches_of(plan, at, rank) for rank in range(3)]
        full = [batch for rank in batches for batch in rank if batch.rows]
        ids = [row for batch in full for row in batch.tensors["id"].tolist()]
        assert sorted(ids) == list(range(ROWS)), mode
        assert [[batch.total for batch in rank] for rank in batches] == [[40, 40, 1]] * 3
        assert [batch.rows for batch in batches[2]] == [13, 13, 0]
        assert all("draw" not in batch.tensors for batch in full)


TOO_FEW = {"a batch larger than the data": (100, 2), "more workers than rows": (200, 90)}


@pytest.mark.parametrize(("batch_size", "world_size"), TOO_FEW.values(), ids=TOO_FEW)
def test_too_few_rows_for_a_step_are_an_error(
    folder: Path, batch_size: int, world_size: int
) -> None:
    plan = make_plan(folder, cache="none", feed={"lastBatch": "drop"})
    at = make_pass(batch_size=batch_size, world_size=world_size)
    with pytest.raises(DataError, match=r"spec\.data\.datasets\.train: 81 rows .* too few"):
        batches_of(plan, at, 0)


def test_a_column_without_numbers_is_an_error_that_names_it(folder: Path) -> None:
    plan = make_plan(folder, cache="none", transforms=[{"use": f"{FUNCTIONS}:words"}])
    with pytest.raises(DataError, match="train: column word holds values of str; turn it into"):
        batches_of(plan, make_pass(), 0)


def test_tensors_have_the_types_asked_for_and_memory_of_their_own(folder: Path) -> None:
    plan = make_plan(folder, cache="workers", feed={"dtypes": {"x": "bfloat16", "id": "float64"}})
    feed = Feed(plan, MemoryBlocks(plan, 0), 0)
    first = next(iter(feed.batches(make_pass())))
    assert str(first.tensors["x"].dtype) == "torch.bfloat16"
    assert str(first.tensors["id"].dtype) == "torch.float64"
    first.tensors["id"].zero_()
    again = next(iter(feed.batches(make_pass())))
    assert again.tensors["id"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("cache", CACHES)
def test_a_value_that_its_type_cannot_hold_is_an_error_that_says_where_it_is(
    tmp_path: Path, cache: str
) -> None:
    folder = write_rows(tmp_path, GROUPS, first=100)
    feed: JsonValue = {"dtypes": {"*": "float16", "id": "int8"}}
    plan = make_plan(folder, cache=cache, feed=feed)

    said = (
        r"^spec\.data\.datasets\.train\.feed\.dtypes\.id: column id, row 12 of row groups 0 to 2 "
        r"in \S*/part-001\.parquet: got 128; expected -128 to 127, as int8 holds\. Use a wider type"
    )
    with pytest.raises(DataError, match=said):
        batches_of(plan, make_pass(), 1)


def test_a_value_of_a_row_that_nobody_counted_is_in_its_file(tmp_path: Path) -> None:
    folder = write_rows(tmp_path, GROUPS, first=100)
    transforms: JsonValue = [{"use": f"{FUNCTIONS}:odd_rows"}]
    feed: JsonValue = {"dtypes": {"*": "int8"}}
    plan = make_plan(folder, cache="none", keeps_rows=False, transforms=transforms, feed=feed)

    said = (
        r"feed\.dtypes\.\*: column x, row 0 of row groups 0 to 1 in \S*/part-000\.parquet as the "
        r"transforms leave them: got 101\.1; expected a whole number, as int8 has no fractions"
    )
    with pytest.raises(DataError, match=said):
        batches_of(plan, make_pass(), 0)


def test_a_value_of_a_row_that_was_chosen_is_counted_among_these(tmp_path: Path) -> None:
    folder = write_rows(tmp_path, GROUPS, first=100)
    plan = make_plan(folder, read={"where": "id >= 103"}, feed={"dtypes": {"x": "int8"}})

    said = (
        r"column x, row 0 of row groups 0 to 1 in \S*/part-000\.parquet, of the rows that are "
        r"chosen: got 103\.1; "
    )
    with pytest.raises(DataError, match=said):
        batches_of(plan, make_pass(), 0)


def test_a_value_of_a_file_that_tells_no_rows_is_in_that_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n".join(["x", "1", "2.5", *["3"] * 30]))
    read: dict[str, JsonValue] = {"format": "csv", "options": {"types": {"x": "float32"}}}
    plan = make_plan(tmp_path, read=read, cache="workers", feed={"dtypes": {"x": "int8"}})

    with pytest.raises(
        DataError, match=r"column x, row 1( from byte 0 on)? in \S*/a\.csv: got 2\.5; "
    ):
        batches_of(plan, make_pass(), 0)


def test_equal_passes_are_told_apart(folder: Path) -> None:
    plan = make_plan(folder, cache="none")
    seen: list[EpochPass] = []

    class Recording(MemoryBlocks):
        def stream(self, at: EpochPass, *rest):  # type: ignore[no-untyped-def]
            seen.append(at)
            return super().stream(at, *rest)

    feed = Feed(plan, Recording(plan, 0), 0)
    for _ in range(2):
        list(feed.batches(make_pass("exact")))
    assert [at.again for at in seen] == [0, 1]


def test_memory_is_kept_from_one_epoch_to_the_next_and_not_beyond(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffer_pool, "LEAST_BYTES", 1)
    plan = make_plan(folder, cache="none", shuffle={"mode": "local", "bufferSize": 13})
    feed, held = Feed(plan, MemoryBlocks(plan, 0), 0), list[int]()

    for epoch in range(3):
        batches = feed.batches(make_pass(epoch=epoch, world_size=1, epochs=3))
        assert sum(batch.rows for batch in batches)
        batches.close()
        gc.collect()
        held.append(buffer_pool.LENDER.held_bytes)

    assert held[0]
    assert held[1]
    deadline = time.monotonic() + SECONDS
    while buffer_pool.LENDER.held_bytes:  # threads that have ended let go of their last rows
        assert time.monotonic() < deadline, held
        time.sleep(0.01)
