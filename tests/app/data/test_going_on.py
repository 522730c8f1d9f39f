"""Whoever goes on in the middle of a pass gets its rest: any files, any mode, any step, any ranks.

What Ray Data streams after a loss is here without Ray; test_feeder.py has it with.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.app.data.builders_plan import MemoryBlocks, make_pass, make_plan, shuffles, write_rows
from trainshed.data.loader.batches import Feed
from trainshed.data.loader.table_streams import dealt
from trainshed.data.sampler.dataset_plan import BLOCK_BYTES, DatasetPlan
from trainshed.data.sampler.description import Described, describe, keep_order
from trainshed.data.sampler.epoch_pass import (
    Delivery,
    EpochPass,
    Kind,
    delivery,
    first_read,
    order_of,
    steps_for,
)
from trainshed.data.sampler.permutation import EpochPermutation
from trainshed.data.sources.fragment_reader import Table, parts, read_parts, reading

SHUFFLES = shuffles(5)
KINDS: tuple[Kind, ...] = ("train", "exact", "whole", "even")
Steps = list[list[int]]
# Most rows of the first turn and of each, of a task, and whether tasks end where fragments do.
Cuts = tuple[tuple[int, int], int, bool]


@dataclass(frozen=True)
class Begun:
    """A pass of which so many steps are done, over files with row groups of these sizes."""

    groups: list[list[int]]
    mode: str
    last: str
    ranks: int
    batch_size: int
    seed: int
    done: int


BEGUN = st.builds(
    Begun,
    groups=st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=3), min_size=1, max_size=3),
    mode=st.sampled_from(sorted(SHUFFLES)),
    last=st.sampled_from(["drop", "keep"]),
    ranks=st.integers(1, 4),
    batch_size=st.integers(4, 11),
    seed=st.integers(0, 3),
    done=st.integers(0, 8),
)


def make(begun: Begun, paths: pytest.TempPathFactory) -> tuple[DatasetPlan, EpochPass]:
    """Return the plan, and the pass from its first step on; there are more steps than are done."""
    plan = make_plan(
        write_rows(paths.mktemp("rows"), begun.groups, width=1),
        cache="none",
        shuffle=SHUFFLES[begun.mode],
        feed={"lastBatch": begun.last},
        num_workers=begun.ranks,
    )
    at = make_pass(
        epoch=1, world_size=begun.ranks, batch_size=begun.batch_size, seed=begun.seed, epochs=2
    )
    assume(steps_for(plan, at, int(plan.counts.sum())).count > begun.done)
    return plan, at


def weighing(plan: DatasetPlan, block_rows: int) -> DatasetPlan:
    """Return the plan as it is where a sample's rows are so large that as many are a block."""
    assert plan.rows
    weighed = replace(plan, num_bytes=plan.rows * BLOCK_BYTES // block_rows)
    assert weighed.block_rows == block_rows
    return weighed


def steps_of(plan: DatasetPlan, at: EpochPass, rank: int) -> Steps:
    """Return a rank's rows, step by step."""
    batches = Feed(plan, MemoryBlocks(plan, rank), rank).batches(at)
    return [batch.tensors["id"].tolist() for batch in batches]


# Of a table that a task hands out, where a step has more rows than a turn.
MOST_ROWS = 3
CUTS = st.tuples(
    st.tuples(st.integers(1, 40), st.integers(1, 40)), st.integers(1, 60), st.booleans()
)


@settings(max_examples=80)
@given(begun=BEGUN, cuts=CUTS, kind=st.sampled_from(KINDS))
def test_what_streams_is_dealt_to_each_rank_as_it_would_read_it(
    begun: Begun, cuts: Cuts, kind: Kind, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plan, at = make(begun, tmp_path_factory)
    at = replace(at, kind=kind, first_step=begun.done if kind == "train" else 0)
    base = order_of(plan, at, plan.counts)
    assert isinstance(base, EpochPermutation)
    deal, ranks = stream_of(plan, at, cuts)

    first = first_read(plan, at, deal.steps)
    for rank in range(begun.ranks):
        places = deal.steps.places(rank, first, deal.steps.count)
        assert ranks[rank] == base.ids(places).tolist()


@settings(max_examples=50)
@given(begun=BEGUN, cuts=CUTS)
def test_what_goes_through_the_object_store_in_one_piece_is_for_one_rank(
    begun: Begun, cuts: Cuts, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # A block with rows of several ranks crosses the network to the node of each.
    plan, at = make(begun, tmp_path_factory)
    deal, _ = stream_of(plan, at, cuts)
    base = order_of(plan, at, plan.counts)
    if deal.places is not None or deal.steps.has_one_reader:
        return
    assert isinstance(base, EpochPermutation)
    sizes = [len(table) for table in tables_of(plan, base, deal)]

    assert set(accumulate(rows for _, rows in deal.dealt)) <= set(accumulate(sizes))
    assert 0 not in sizes


@settings(max_examples=60)
@given(begun=BEGUN, cuts=st.lists(CUTS, min_size=4, max_size=4))
def test_a_step_has_the_same_rows_on_any_number_of_workers_wherever_turns_are_cut(
    begun: Begun, cuts: list[Cuts], tmp_path_factory: pytest.TempPathFactory
) -> None:
    plan, at = make(replace(begun, last="keep"), tmp_path_factory)
    at, seen = replace(at, first_step=begun.done), []
    for world_size, each in enumerate(cuts, start=1):
        now = replace(at, world_size=world_size)
        deal, ranks = stream_of(plan, now, each)
        steps: list[list[int]] = [[] for _ in range(deal.steps.count)]
        first = first_read(plan, now, deal.steps)
        for rank, rows in enumerate(ranks):
            stream = iter(rows)
            given_rows, counting = deal.steps.sizes(rank), deal.steps.sizes(rank, counted=True)
            for step in range(first, deal.steps.count):
                here = [next(stream) for _ in range(given_rows[step])]
                steps[step] += here[: counting[step]]
        seen.append([hash(tuple(sorted(step))) for step in steps[first:]])
        if not first:
            every = sorted(row for step in steps for row in step)
            assert every == list(range(deal.steps.rows)), "each row once an epoch"

    assert seen == [seen[0]] * len(cuts)


def stream_of(plan: DatasetPlan, at: EpochPass, cuts: Cuts) -> tuple[Delivery, Steps]:
    """Return what streams in a pass, and the rows that the tasks deal to each rank, without Ray."""
    turn_rows, task_rows, by_fragments = cuts
    base = order_of(plan, at, plan.counts)
    assert isinstance(base, EpochPermutation)
    by_fragments = by_fragments and base.mixed is None
    deal = delivery(plan, at, base, turn_rows, task_rows, by_fragments=by_fragments)
    if deal.places is not None:
        streamed = [int(row) for row in np.argsort(deal.places) if deal.places[row] >= 0]
    else:
        streamed = [row for table in tables_of(plan, base, deal) for row in table]
    ranks: Steps = [[] for _ in range(at.world_size)]
    stream = iter(streamed)
    for takers, rows in deal.dealt:
        taken = [next(stream) for _ in range(rows)]
        for rank in takers:
            ranks[rank] += taken
    assert list(stream) == []
    return deal, ranks


def tables_of(plan: DatasetPlan, base: EpochPermutation, deal: Delivery) -> Iterator[list[int]]:
    """Yield the rows of each table that tasks hand out."""
    for turns in deal.turns_by_task():
        tables = task_of(plan, base, turns)
        if deal.steps.has_one_reader:
            yield from (columns["id"].tolist() for columns, _ in tables)
            continue
        for columns in dealt(tables, deal.steps, turns, MOST_ROWS):
            yield columns["id"].tolist()


def task_of(plan: DatasetPlan, base: EpochPermutation, turns: list[int]) -> Iterator[Table]:
    """Yield what a task reads, a few rows at a time."""
    how = replace(reading(plan), chunk_rows=5)
    return read_parts(how, parts(plan, base.pieces(turns[0], turns[-1])))


@settings(max_examples=30)
@given(begun=BEGUN, blocks=st.tuples(st.integers(0, 5), st.integers(0, 5)))
def test_rows_that_weigh_something_else_now_are_the_same_rows_in_the_same_steps(
    begun: Begun, blocks: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    plan, at = make(begun, tmp_path_factory)
    before, now = (weighing(plan, 2**power) for power in blocks)
    told = describe(before, None)
    assert told
    stored = {"train": Described.model_validate_json(told.to_line())}
    going_on, notes = keep_order({"train": now}, stored, mid_pass={"train": True})

    assert notes == []
    for rank in range(begun.ranks):
        rest = steps_of(going_on["train"], replace(at, first_step=begun.done), rank)
        assert rest == steps_of(before, at, rank)[begun.done :]


def counting(plan: DatasetPlan, at: EpochPass) -> Steps:
    """Return the rows that count in each step, of all ranks one after the other."""
    ranks = [
        Feed(plan, MemoryBlocks(plan, rank), rank).batches(at) for rank in range(at.world_size)
    ]
    return [
        [row for batch in step for row in batch.tensors["id"].tolist()[: batch.rows]]
        for step in zip(*ranks, strict=True)
    ]
