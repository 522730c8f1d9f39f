"""Rows that nobody counted are given as counted ones are, and are counted meanwhile."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

from tests.app.data.builders_plan import (
    FUNCTIONS,
    MemoryBlocks,
    UncountedMemory,
    counted,
    make_pass,
    make_plan,
    shuffles,
    with_fields,
    write_rows,
)
from trainshed.data.loader.batches import Feed
from trainshed.data.loader.row_counts import RowCounts
from trainshed.data.sampler.dataset_plan import DatasetPlan, OrderFingerprint
from trainshed.data.sampler.epoch_pass import EpochPass, Kind
from trainshed.data.sampler.first_pass import nothing_known
from trainshed.data.sampler.permutation import Indices, RowRange
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.fragment_reader import parts, read_parts, reading

# The five fragments have so many rows with an odd id: 8, 0, 19, 13, 1.
GROUPS = ([16], [1], [30, 8], [25], [2])
BATCH = 7
SHUFFLES = {name: how for name, how in shuffles(20).items() if name != "global"}
KINDS: tuple[Kind, ...] = ("train", "exact", "whole", "even")
ODD: JsonValue = [{"use": f"{FUNCTIONS}:odd_rows"}]
Step = tuple[list[float], list[float], int, int]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), GROUPS)


def planned(folder: Path, mode: str = "none", last: str = "drop") -> DatasetPlan:
    return make_plan(
        folder,
        keeps_rows=False,
        may_learn=True,
        cache="none",
        shuffle=SHUFFLES[mode],
        transforms=ODD,
        augment=[{"use": f"{FUNCTIONS}:noise"}],
        feed={"lastBatch": last},
    )


def given(feed: Feed, at: EpochPass) -> Iterator[Step]:
    for batch in feed.batches(at):
        tensors = batch.tensors
        yield (
            tensors["id"].tolist()[: batch.rows],
            tensors["draw"].tolist() if "draw" in tensors else [],
            batch.rows,
            batch.total,
        )


def known_ahead(plan: DatasetPlan, at: EpochPass, rank: int) -> list[Step]:
    """Return the steps of a rank where somebody counted the rows before."""
    ahead = replace(plan, may_learn=False)
    return list(given(Feed(ahead, MemoryBlocks(ahead, rank), rank), at))


def learning(plan: DatasetPlan, rank: int, known: Indices | None = None) -> tuple[Feed, Indices]:
    """Return a rank's feed where nobody did, and what the feeder is told."""
    told = nothing_known(plan) if known is None else known
    blocks = UncountedMemory(plan, told)
    return Feed(plan, MemoryBlocks(plan, rank), rank, uncounted=blocks), told


@pytest.mark.parametrize("last", ["keep", "drop"])
@pytest.mark.parametrize(("mode", "kind"), list(product(SHUFFLES, KINDS)))
def test_steps_are_those_of_rows_that_were_counted(
    folder: Path, mode: str, kind: Kind, last: str
) -> None:
    plan = planned(folder, mode, last)
    for world_size in (1, 2, 3, 4):
        for rank in range(world_size):
            at = make_pass(kind, epoch=1, world_size=world_size, batch_size=BATCH)
            feed, told = learning(plan, rank)

            assert list(given(feed, at)) == known_ahead(plan, at, rank)
            assert told.tolist() == counted(plan).tolist()


@pytest.mark.parametrize("mode", SHUFFLES)
def test_who_stops_in_the_first_epoch_goes_on_at_the_same_step(folder: Path, mode: str) -> None:
    plan = planned(folder, mode, "keep")
    whole = known_ahead(plan, make_pass(batch_size=BATCH), 0)
    for stop in range(len(whole) + 1):
        feed, _ = learning(plan, 0)
        steps = given(feed, make_pass(batch_size=BATCH))
        before = [next(steps) for _ in range(stop)]
        # What the checkpoint holds of it.
        kept = feed.counted.get("train")
        resumed = replace(
            plan,
            kept=None if kept is None else OrderFingerprint(tuple(kept.tolist()), under_way=True),
        )

        after, _ = learning(resumed, 0)

        at = make_pass(batch_size=BATCH, first_step=stop)
        assert before + list(given(after, at)) == whole


def test_what_is_behind_a_checkpoint_is_not_read_again(folder: Path) -> None:
    plan = planned(folder)
    counts = counted(plan)
    blocks = UncountedMemory(plan, np.where(np.arange(len(counts)) < 3, counts, -1))
    feed = Feed(plan, MemoryBlocks(plan, 0), 0, uncounted=blocks)

    # 8 + 0 + 19 rows lie before the fourth fragment, in which step 4 begins.
    list(feed.batches(make_pass(batch_size=7, first_step=4)))

    assert blocks.read == [3, 4]


def test_the_second_pass_is_dealt_out(folder: Path) -> None:
    plan = planned(folder)
    feed, _ = learning(plan, 0)
    list(feed.batches(make_pass(batch_size=BATCH)))
    at = make_pass(epoch=1, batch_size=BATCH)

    assert feed.planned_steps(make_pass(batch_size=BATCH)) is not None
    assert list(given(feed, at)) == known_ahead(plan, at, 0)


class Unheard(UncountedMemory):
    """The feeder, before it hears what rank 0 said while it read."""

    def learn(self, counts: Mapping[int, int], *, waits: bool) -> None:
        """Hear nothing yet but what a rank waits for."""
        if waits:
            super().learn(counts, waits=waits)


def test_who_is_through_first_finds_the_next_pass_counted(folder: Path) -> None:
    """Rank 1 asked for it before rank 0's word of the last rows came: it was not dealt out."""
    plan = planned(folder)
    blocks = Unheard(plan, nothing_known(plan))
    list(Feed(plan, MemoryBlocks(plan, 1), 1, uncounted=blocks).batches(make_pass()))

    assert blocks.known(make_pass(epoch=1)).are_all


def test_nobody_knows_the_steps_of_the_first_pass(folder: Path) -> None:
    feed, _ = learning(planned(folder), 0)

    assert feed.planned_steps(make_pass(batch_size=BATCH)) is None


def test_a_fragment_that_gives_other_rows_than_before_ends_the_run(folder: Path) -> None:
    plan = planned(folder)
    counts = nothing_known(plan)
    counts[2] = 3
    feed, _ = learning(plan, 0, counts)

    with pytest.raises(DataError, match=r"part-002.parquet gave 19 rows where it gave 3 before"):
        list(feed.batches(make_pass(batch_size=BATCH)))


def test_what_passes_began_with_takes_no_memory_for_each(folder: Path) -> None:
    learned = RowCounts(planned(folder), print)
    first = learned.known(make_pass(group=1))
    learned.take({0: 8})
    assert learned.known(make_pass(group=1)) is first
    assert first.counts.tolist() == [-1] * 5
    learned.take(dict(enumerate([8, 0, 19, 13, 1])))

    later = [learned.known(make_pass(epoch=epoch, group=2)) for epoch in (1, 2)]

    assert later[0].counts is later[1].counts
    assert learned.known(make_pass(group=1)) is not first


def test_no_rows_take_the_place_of_others_that_are_known(folder: Path) -> None:
    learned = RowCounts(planned(folder), print)
    learned.take({0: 8})

    with pytest.raises(DataError, match=r"part-000.parquet gave 0 rows where it gave 8 before"):
        learned.take(dict.fromkeys(range(5), 0))

    assert learned.counts.tolist() == [8, -1, -1, -1, -1]


def test_too_few_rows_for_a_step_say_so_when_they_have_come(folder: Path) -> None:
    feed, _ = learning(planned(folder), 0)

    with pytest.raises(DataError, match="41 rows of an epoch after the transforms are too few"):
        list(feed.batches(make_pass(batch_size=100)))


def test_rows_that_no_sample_showed_to_be_left_out_are_left_out_in_each_pass(folder: Path) -> None:
    """All rows of the sample stayed; the first pass counted fewer than the second one found."""
    plan = make_plan(
        folder,
        keeps_rows=True,
        may_learn=True,
        cache="none",
        read={"where": "id >= 0"},
        transforms=ODD,
    )
    feed, _ = learning(plan, 0)
    first = [step[0] for step in given(feed, make_pass(world_size=1, batch_size=BATCH))]

    again = [step[0] for step in given(feed, make_pass(epoch=1, world_size=1, batch_size=BATCH))]

    assert again == first


def test_rows_that_transforms_leave_out_by_now_are_counted_again_after_an_epoch(
    folder: Path,
) -> None:
    plan = replace(planned(folder), kept=OrderFingerprint((8, 1, 19, 13, 1), under_way=False))
    said: list[str] = []
    learned = RowCounts(plan, said.append)

    assert learned.counts.tolist() == [-1] * 5
    feed, told = learning(plan, 0)
    list(feed.batches(make_pass(batch_size=BATCH)))
    learned.take(dict(enumerate(told.tolist())))
    learned.take({0: 8})
    (note,) = said
    assert "41 rows in 5 blocks after the transforms, where the checkpoint had 42 rows in" in note


def choosing(folder: Path, labels: str, how: dict[str, JsonValue]) -> DatasetPlan:
    """Return the plan of a file of labels that chooses rows by them."""
    (folder / "rows.csv").write_text("\n".join(["label", *labels]), encoding="ascii")
    read: dict[str, JsonValue] = {"format": "csv", **how}
    return make_plan(folder, may_learn=True, cache="none", shuffle=SHUFFLES["none"], read=read)


CHOICES: dict[str, dict[str, JsonValue]] = {
    "by a condition": {"where": "label == 1"},
    "by strata": {"holdout": {"share": 0.5, "keep": "held", "stratify": "label"}},
}


@pytest.mark.parametrize("how", CHOICES.values(), ids=CHOICES)
def test_rows_that_values_choose_are_counted_again_after_an_epoch(
    tmp_path: Path, how: dict[str, JsonValue]
) -> None:
    """A label was corrected since: the file's size is the same."""
    first = choosing(tmp_path, "110000", how)
    (before,) = counted(first).tolist()
    plan = choosing(tmp_path, "111000", how)
    (now,) = counted(plan).tolist()
    assert first.source
    assert plan.source
    assert first.source.digest == plan.source.digest
    assert before != now
    said: list[str] = []
    learned = RowCounts(
        replace(plan, kept=OrderFingerprint((before,), under_way=False)), said.append
    )

    assert learned.counts.tolist() == [-1]
    learned.take({0: now})
    (note,) = said
    assert f"{now} rows in 1 blocks after the transforms, where the checkpoint had {before}" in note


@pytest.mark.parametrize("labels", ["111000", "100000"])
def test_rows_that_values_choose_by_now_are_refused_in_the_middle_of_an_epoch(
    tmp_path: Path, labels: str
) -> None:
    plan = choosing(tmp_path, labels, {"where": "label == 1"})
    held = replace(plan, kept=OrderFingerprint((2,), under_way=True))
    assert nothing_known(held).tolist() == [2]

    with pytest.raises(DataError, match=r"rows.csv has (1 rows where it had more|more rows than)"):
        list(read_parts(reading(held), parts(held, [RowRange(0, 0, 2, is_last=True)])))


def test_each_worker_sees_all_rows_of_a_pass_that_counts_them(folder: Path) -> None:
    plan = with_fields(planned(folder, "blocks and a buffer", "keep"), split=False)
    for rank in (0, 1, 2):
        at = make_pass(world_size=3, batch_size=BATCH)

        assert list(given(learning(plan, rank)[0], at)) == known_ahead(plan, at, rank)
