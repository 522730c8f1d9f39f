"""When ranks agree next, and what one rank agrees with itself; more ranks need Ray."""

from dataclasses import dataclass

import pytest
import torch

from trainshed.runtime.control import Control, Proposal, next_agreement
from trainshed.runtime.meter import WORKER_BUCKETS

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

    assert control.leads
    assert control.from_leader(5) == 5
    assert numbers.tolist() == [1.0, 2.0]
    assert [part.tolist() for part in control.gather(numbers)] == [[1.0, 2.0]]
