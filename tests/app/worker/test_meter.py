"""Every second of a worker is in exactly one bucket."""

import contextlib
import math
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.clock import Clock
from trainshed.data.sampler.stage_time import WAIT, Spent, StageKey
from trainshed.data.sources.stage_timer import STAGE_TIMER
from trainshed.worker.phase_timer import (
    CHECKPOINTING,
    EVALUATING,
    TRAINING,
    WAITING,
    WORKER_BUCKETS,
    PhaseTimer,
)


def test_time_goes_to_the_bucket_inside_and_then_to_the_one_before() -> None:
    clock = Clock()
    phase_timer = PhaseTimer(clock)
    clock.pass_(1)
    with phase_timer.inside(EVALUATING):
        clock.pass_(2)
        with phase_timer.inside(WAITING):
            clock.pass_(4)
        clock.pass_(8)
    clock.pass_(16)

    assert phase_timer.seconds() == {TRAINING: 17, WAITING: 4, EVALUATING: 10, CHECKPOINTING: 0}


def test_an_exception_ends_the_bucket_too() -> None:
    clock = Clock()
    phase_timer = PhaseTimer(clock)
    with contextlib.suppress(ValueError), phase_timer.inside(CHECKPOINTING):
        clock.pass_(1)
        raise ValueError
    clock.pass_(2)

    assert phase_timer.seconds() == {TRAINING: 2, WAITING: 0, EVALUATING: 0, CHECKPOINTING: 1}


class Given(NamedTuple):
    """What is waited for."""

    rows: int


@pytest.mark.usefixtures("empty_ledger")
def test_waiting_is_until_an_item_is_there_and_not_what_is_done_with_it() -> None:
    clock = Clock()
    phase_timer = PhaseTimer(clock)

    def make() -> Iterator[Given]:
        for seconds in (1, 2):
            clock.pass_(seconds)
            yield Given(10 * seconds)
        clock.pass_(4)  # to find out that there are no more

    items = []
    for item in phase_timer.waiting_for(make(), "train"):
        clock.pass_(8)
        items.append(item)

    assert items == [Given(10), Given(20)]
    assert STAGE_TIMER.take() == {StageKey("train", WAIT): Spent(2.0, 30)}
    assert phase_timer.seconds() == {TRAINING: 16, WAITING: 7, EVALUATING: 0, CHECKPOINTING: 0}


@given(st.lists(st.tuples(st.sampled_from(("leave", *WORKER_BUCKETS)), st.floats(0, 1e4))))
def test_no_second_is_missing_and_none_counts_twice(
    moves: list[tuple[str, float]],
) -> None:
    clock = Clock(1e6)
    phase_timer = PhaseTimer(clock)
    open_blocks: list[contextlib.AbstractContextManager[None]] = []
    for move, seconds in moves:
        if move == "leave":
            if open_blocks:
                open_blocks.pop().__exit__(None, None, None)
        else:
            block = phase_timer.inside(move)
            block.__enter__()
            open_blocks.append(block)
        clock.pass_(seconds)
        spent = phase_timer.seconds()

        assert math.fsum(spent.values()) == pytest.approx(clock.now - 1e6, abs=1e-6)
        assert min(spent.values()) >= 0
