"""What streams in a pass: each rank its own rows, or all the same."""

from pathlib import Path

import numpy as np
import pytest

from tests.app.builders_rows import write_rows
from tests.app.data.builders_plan import make_pass, make_plan
from trainshed.data.order.schedule import delivery, is_split, rank_pieces, split_for

ROWS, RANKS = 50, 3


@pytest.mark.parametrize("is_split_in_training", [True, False])
def test_an_evaluation_delivers_every_row_once_however_training_is_split(
    is_split_in_training: bool, tmp_path: Path
) -> None:
    # Of a dataset that every worker sees whole, each was given the first one's part.
    plan = make_plan(write_rows(tmp_path, ROWS), split=is_split_in_training, cache="none")
    at = make_pass("exact", num_ranks=RANKS)

    deal = delivery(plan, at, plan.counts)

    assert is_split(plan, at)
    assert {rank for rank, _ in deal.turns} == set(range(RANKS))
    assert sum(rows for _, rows in deal.turns) == sum(piece.rows for piece in deal.pieces) == ROWS


@pytest.mark.parametrize("is_split_in_training", [True, False])
def test_a_whole_pass_gives_every_rank_all_rows_in_file_order(
    is_split_in_training: bool, tmp_path: Path
) -> None:
    plan = make_plan(
        write_rows(tmp_path, ROWS), split=is_split_in_training, shuffle={"mode": "global"}
    )
    at = make_pass("whole", num_ranks=RANKS)

    assert not is_split(plan, at)
    assert sum(rows for _, rows in delivery(plan, at, plan.counts).turns) == ROWS
    assert int(split_for(plan, at, ROWS).sizes(2).sum()) == ROWS
    for rank in range(RANKS):
        pieces = rank_pieces(plan, at, plan.counts, rank)
        order = [(piece.fragment, piece.start) for piece in pieces]
        assert order == sorted(order)
        assert np.sum([piece.rows for piece in pieces]) == ROWS
