"""Progress is written in turns, and all runs together not too often."""

from hypothesis import given
from hypothesis import strategies as st

from trainshed_controller.allowance import (
    MOST_OWED_SECONDS,
    MOST_SAVED_SECONDS,
    TRANSITIONS_PER_SECOND,
    WRITES_PER_SECOND,
    Allowance,
)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def go_on(allowance: Allowance, clock: Clock, runs: list[str], seconds: float) -> list[str]:
    """Have every run ask again and again; return those that wrote, in order."""
    end, wrote = clock.now + seconds, []
    while clock.now < end:
        for run in runs:
            if allowance.wait(run) is None:
                wrote.append(run)
        clock.now += 0.01
    return wrote


def test_every_run_has_its_turn_before_one_has_a_second() -> None:
    clock = Clock()
    allowance = Allowance(clock)
    runs = [f"run-{number}" for number in range(200)]

    wrote = go_on(allowance, clock, runs, 5.0)

    assert len(wrote) > 150
    assert len(set(wrote[:200])) == len(wrote[:200])


def test_a_run_is_told_how_long_to_wait() -> None:
    clock = Clock()
    allowance = Allowance(clock)
    go_on(allowance, clock, [f"run-{number}" for number in range(100)], 0.01)

    left = allowance.wait("late")
    assert left
    clock.now += left + 0.001

    assert allowance.wait("late") is None


def test_a_transition_is_never_held_back_and_progress_pays_for_it() -> None:
    clock = Clock()
    allowance = Allowance(clock)
    go_on(allowance, clock, [f"run-{number}" for number in range(60)], 0.01)
    before = allowance.wait("before")
    for number in range(200):
        allowance.take(f"change-{number}")

    left = allowance.wait("progress")

    assert before
    assert left
    counted = MOST_OWED_SECONDS * TRANSITIONS_PER_SECOND
    assert abs(left - before - (counted + 1) / WRITES_PER_SECOND) < 1.5 / WRITES_PER_SECOND


def test_500_runs_have_their_turns_in_20_s_though_1000_begin_at_once() -> None:
    clock = Clock()
    allowance = Allowance(clock)
    for number in range(1000):
        allowance.take(f"new-{number}")
    runs = [f"run-{number}" for number in range(500)]

    wrote = []
    for _ in range(20):
        for number in range(50):
            allowance.take(f"change-{clock.now}-{number}")
        wrote += go_on(allowance, clock, runs, 1.0)

    assert set(wrote) == set(runs)


def test_5_transitions_a_second_and_500_runs_stay_below_40_writes_a_second() -> None:
    clock = Clock()
    allowance = Allowance(clock)
    runs = [f"run-{number}" for number in range(500)]

    def go_on_with_changes(seconds: int) -> list[str]:
        wrote = []
        for _ in range(seconds):
            for number in range(5):
                allowance.take(f"change-{clock.now}-{number}")
            wrote += go_on(allowance, clock, runs, 0.995)
        return wrote

    go_on_with_changes(20)  # the moments of the first changes lie behind those of all runs
    wrote = go_on_with_changes(60)

    assert len(wrote) + 5 * 60 <= 40 * 60
    assert min(wrote.count(run) for run in runs) >= 60 // 20


def test_a_transition_of_a_run_that_waits_uses_the_moment_it_has() -> None:
    clock = Clock()
    allowance = Allowance(clock)
    go_on(allowance, clock, [f"run-{number}" for number in range(60)], 0.01)
    before = allowance.wait("one")
    assert before

    allowance.take("one")

    after = allowance.wait("two")
    assert after
    assert after - before < 1.5 / WRITES_PER_SECOND


@given(
    asked=st.lists(st.tuples(st.integers(0, 30), st.floats(0.0, 0.5)), min_size=50, max_size=200)
)
def test_all_together_write_no_more_than_they_may(asked: list[tuple[int, float]]) -> None:
    clock = Clock()
    allowance, began, wrote = Allowance(clock), clock.now, 0
    for number, pause in asked:
        wrote += allowance.wait(f"run-{number}") is None
        assert wrote <= (clock.now - began + MOST_SAVED_SECONDS) * WRITES_PER_SECOND + 1
        clock.now += pause
