"""What streams in a pass: each rank its own rows, or all the same."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.builders_rows import write_rows
from tests.app.data.builders_plan import make_pass, make_plan
from trainshed.data.order.epoch import EpochOrder
from trainshed.data.order.schedule import cuts_after, delivery, grouped, order_of, steps_for

ROWS, RANKS = 50, 3


@pytest.mark.parametrize("is_split_in_training", [True, False])
def test_an_evaluation_delivers_every_row_once_however_training_is_split(
    is_split_in_training: bool, tmp_path: Path
) -> None:
    # Of a dataset that every worker sees whole, each was given the first one's part.
    plan = make_plan(write_rows(tmp_path, ROWS), split=is_split_in_training, cache="none")
    at = make_pass("exact", num_ranks=RANKS)

    deal = delivery(plan, at, order_of(plan, at, plan.counts), 20)

    assert {tuple(ranks) for ranks, _ in deal.dealt} == {(rank,) for rank in range(RANKS)}
    assert sum(rows for _, rows in deal.dealt) == ROWS


@pytest.mark.parametrize("is_split_in_training", [True, False])
def test_a_whole_pass_gives_every_rank_all_rows_in_file_order(
    is_split_in_training: bool, tmp_path: Path
) -> None:
    plan = make_plan(
        write_rows(tmp_path, ROWS), split=is_split_in_training, shuffle={"mode": "global"}
    )
    at = make_pass("whole", num_ranks=RANKS)

    base, steps = order_of(plan, at, plan.counts), steps_for(plan, at, ROWS)
    assert isinstance(base, EpochOrder)
    assert sum(rows for _, rows in delivery(plan, at, base, 20).dealt) == ROWS
    for rank in range(RANKS):
        assert base.ids(steps.places(rank, 0, steps.count)).tolist() == list(range(ROWS))


@given(
    turns=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    fragments=st.lists(st.integers(1, 90), min_size=1, max_size=30),
    most=st.integers(1, 300),
)
def test_tasks_have_all_turns_once_and_begin_soon_after_a_fragment_does(
    turns: list[int], fragments: list[int], most: int
) -> None:
    places = np.cumsum([0, *turns]).tolist()
    ends = np.asarray([end for end in np.cumsum(fragments) if end < places[-1]] + [places[-1]])
    cuts = cuts_after(places, ends)
    tasks = list(grouped(places, cuts, most))

    assert [place for task in tasks for place in task[:-1]] == places[:-1]
    assert [task[-1] for task in tasks] == [*(task[0] for task in tasks[1:]), places[-1]]
    for task in tasks[1:]:
        before = ends[ends <= task[0]].max()
        assert not [place for place in places if before <= place < task[0]]
    for task in tasks:
        inside = [place for place in cuts if task[0] < place < task[-1]]
        assert task[-1] - task[0] <= most or not inside
