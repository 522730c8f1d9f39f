"""What streams in a pass: each rank its own rows, or all the same."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.builders_rows import write_rows
from tests.app.data.builders_plan import make_pass, make_plan
from tests.app.data.builders_plan import write_rows as write_groups
from trainshed.data.sampler.batch_layout import BatchLayout, training_steps
from trainshed.data.sampler.epoch_pass import delivery, order_of, steps_for
from trainshed.data.sampler.permutation import EpochPermutation

ROWS, RANKS = 50, 3


@pytest.mark.parametrize("is_split_in_training", [True, False])
def test_an_evaluation_delivers_every_row_once_however_training_is_split(
    is_split_in_training: bool, tmp_path: Path
) -> None:
    # Of a dataset that every worker sees whole, each was given the first one's part.
    plan = make_plan(write_rows(tmp_path, ROWS), split=is_split_in_training, cache="none")
    at = make_pass("exact", world_size=RANKS)

    deal = delivery(plan, at, order_of(plan, at, plan.counts), (20, 20), 40, by_fragments=True)

    assert {tuple(ranks) for ranks, _ in deal.dealt} == {(rank,) for rank in range(RANKS)}
    assert sum(rows for _, rows in deal.dealt) == ROWS


@pytest.mark.parametrize("is_split_in_training", [True, False])
def test_a_whole_pass_gives_every_rank_all_rows_in_file_order(
    is_split_in_training: bool, tmp_path: Path
) -> None:
    plan = make_plan(
        write_rows(tmp_path, ROWS), split=is_split_in_training, shuffle={"mode": "global"}
    )
    at = make_pass("whole", world_size=RANKS)

    base, steps = order_of(plan, at, plan.counts), steps_for(plan, at, ROWS)
    assert isinstance(base, EpochPermutation)
    assert (
        sum(rows for _, rows in delivery(plan, at, base, (20, 20), 40, by_fragments=False).dealt)
        == ROWS
    )
    for rank in range(RANKS):
        assert base.ids(steps.places(rank, 0, steps.count)).tolist() == list(range(ROWS))


@given(
    groups=st.lists(st.integers(1, 90), min_size=1, max_size=12),
    batch_size=st.integers(1, 40),
    world_size=st.integers(1, 4),
    turn_rows=st.tuples(st.integers(1, 120), st.integers(1, 120)),
    task_rows=st.integers(1, 300),
)
def test_tasks_have_all_turns_once_and_end_where_fragments_do(  # noqa: PLR0917 - a size each
    groups: list[int],
    batch_size: int,
    world_size: int,
    turn_rows: tuple[int, int],
    task_rows: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    plan = make_plan(
        write_groups(tmp_path_factory.mktemp("rows"), [[rows] for rows in groups], width=1),
        cache="none",
        feed={"lastBatch": "keep"},
    )
    at = make_pass(world_size=world_size, batch_size=batch_size)
    base = order_of(plan, at, plan.counts)
    deal = delivery(plan, at, base, turn_rows, task_rows, by_fragments=True)
    tasks, ends = list(deal.turns_by_task()), np.cumsum(groups).tolist()

    assert [turn for task in tasks for turn in pairwise(task)] == list(pairwise(deal.turns))
    assert {0, ends[-1]} <= set(deal.tasks) <= {0, *ends}
    assert max(np.diff(deal.turns)) <= max(batch_size, *turn_rows)
    lent = deal.steps.start(deal.steps.full) if deal.steps.borrowers else ends[-1]
    assert not [end for end in deal.turns if lent < end < ends[-1]]
    for task in tasks:
        inside = [end for end in ends if task[0] < end < task[-1] and end <= lent]
        assert task[-1] - task[0] <= task_rows or not inside


@pytest.mark.parametrize(("first_step", "by_fragments"), [(0, True), (0, False), (3, True)])
def test_turns_grow_from_the_first_for_which_somebody_waits(
    first_step: int, by_fragments: bool, tmp_path: Path
) -> None:
    plan = make_plan(write_groups(tmp_path, [[100], [100]], width=1), cache="none")
    at = make_pass(world_size=2, batch_size=2, first_step=first_step)
    base = order_of(plan, at, plan.counts)

    deal = delivery(plan, at, base, (4, 32), 100, by_fragments=by_fragments)

    lengths = np.diff(deal.turns)
    assert lengths[:3].tolist() == [4, 4, 8]
    assert set(lengths[3:].tolist()) <= set(range(24, 33))


def test_tasks_that_read_no_files_end_where_turns_do(tmp_path: Path) -> None:
    plan, at = make_plan(write_rows(tmp_path, ROWS), cache="objects"), make_pass(world_size=RANKS)
    base = order_of(plan, at, plan.counts)

    deal = delivery(plan, at, base, (16, 16), 20, by_fragments=False)

    assert deal.turns == [0, 16, 32, 48]
    assert list(deal.turns_by_task()) == [[0, 16], [16, 32], [32, 48]]


@given(
    steps=st.builds(
        training_steps,
        rows=st.integers(1, 60),
        batch_size=st.integers(1, 13),
        world_size=st.integers(1, 5),
        last=st.sampled_from(["drop", "keep"]),
        split=st.booleans(),
    ),
    rotation=st.none() | st.integers(0, 9),
    places=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_a_ranks_rows_between_two_places_are_counted_without_looking_at_them(
    steps: BatchLayout, rotation: int | None, places: tuple[int, int]
) -> None:
    steps = replace(steps, rotation=rotation)
    start, stop = sorted(min(place, steps.rows) for place in places)
    for rank in steps.owners(start // steps.size):
        chosen = np.arange(start, stop)[steps.within(rank, start, stop)]
        assert steps.rows_before(rank, stop) - steps.rows_before(rank, start) == len(chosen)
