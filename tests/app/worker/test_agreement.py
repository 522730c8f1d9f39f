"""When ranks agree next, and on what."""

from dataclasses import dataclass

import pytest
import torch

from tests.app.worker.ranks import on_ranks
from tests.app.worker.ranks_do import Done, do_all
from trainshed.worker.phase_timer import WORKER_BUCKETS
from trainshed.worker.step_sync import Control, Proposal, next_agreement

SECONDS = {bucket: float(number) for number, bucket in enumerate(WORKER_BUCKETS)}


@dataclass(frozen=True)
class Case:
    """A pace at step 100 and the step of the next agreement."""

    seconds_per_step: float
    want: int


CASES: dict[str, Case] = {
    "the pace is not known yet": Case(0.0, 102),
    "four a second at a hundred steps a second": Case(0.01, 125),
    "steps of a quarter of a second": Case(0.25, 101),
    "each step where steps are slow": Case(30.0, 101),
    "far ahead where steps are very fast": Case(1e-4, 2600),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ranks_agree_about_four_times_a_second(case: Case) -> None:
    assert next_agreement(100, case.seconds_per_step) == case.want


@pytest.mark.parametrize("bad_step", [None, 0, 7])
def test_one_rank_agrees_with_itself(bad_step: int | None) -> None:
    mine = Proposal(next_step=12, stop=True, written=3, seconds=SECONDS, bad_step=bad_step)
    agreed = Control().agree(mine)

    assert (agreed.next_step, agreed.stop, agreed.written) == (12, True, 3)
    assert agreed.seconds == SECONDS
    assert agreed.bad_step == bad_step


def test_one_rank_is_its_own_leader() -> None:
    control = Control()
    numbers = torch.tensor([1.0, 2.0])
    control.sum(numbers)

    assert control.rank == 0
    assert control.from_leader(5) == 5
    assert numbers.tolist() == [1.0, 2.0]
    assert [part.tolist() for part in control.gather(numbers)] == [[1.0, 2.0]]


# ---------------------------------------------------------------- three ranks


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """Return what three ranks came to know."""
    return on_ranks(3, tmp_path_factory.mktemp("ranks"), do_all)


def test_all_ranks_know_the_same(ranks: list[Done]) -> None:
    assert [done.rank for done in ranks] == [0, 1, 2]
    assert ranks[0].fine == ranks[1].fine == ranks[2].fine
    assert ranks[0].bad == ranks[1].bad == ranks[2].bad


def test_the_leaders_word_counts_and_seconds_are_means(ranks: list[Done]) -> None:
    agreed = ranks[1].fine

    assert (agreed.next_step, agreed.stop, agreed.written) == (10, True, 5)
    assert agreed.seconds == pytest.approx(dict.fromkeys(WORKER_BUCKETS, 1.0))
    assert agreed.bad_step is None


def test_the_first_bad_step_of_any_rank_is_known_to_all(ranks: list[Done]) -> None:
    assert [rank.bad.bad_step for rank in ranks] == [7, 7, 7]


def test_states_are_gathered_in_rank_order(ranks: list[Done]) -> None:
    assert [rank.gathered for rank in ranks] == [[[0, 0], [1, 1], [2, 2]]] * 3
    assert [rank.told for rank in ranks] == [40] * 3


def test_all_ranks_stop_an_evaluation_at_the_same_meeting(ranks: list[Done]) -> None:
    assert [rank.whole for rank in ranks] == [2, 7, 40]
    assert [rank.cut for rank in ranks] == [-2, -4, -4]


def test_a_rank_that_waits_for_rows_meets_the_others_meanwhile(ranks: list[Done]) -> None:
    # By time who does not wait sees all its batches before the stop; in step, one and no more.
    assert [rank.waited for rank in ranks] == [[4, 4, 1, 1], [2, 2, 2, 1], [3, 3, 3, 1]]


def test_evaluation_counts_each_row_once_with_the_leaders_statistics(ranks: list[Done]) -> None:
    # Rows 0..10 less rank 0's mean of 1; a rank without rows knows the names nevertheless.
    for rank in ranks:
        assert rank.means == pytest.approx({"centred": 4.0, "count": 1.0}, abs=1e-4)
        assert rank.nothing == pytest.approx({"centred": 1.0, "count": 1.0}, abs=1e-4)
