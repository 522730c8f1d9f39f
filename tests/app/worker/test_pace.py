"""How fast steps go: of the last seconds, pauses not counted."""

import pytest

from tests.app.clock import Clock
from trainshed.worker.phase_timer import ThroughputMeter


def make_throughput() -> tuple[ThroughputMeter, Clock]:
    clock = Clock(100.0)
    return ThroughputMeter(clock), clock


def test_one_step_has_no_pace_yet() -> None:
    throughput, _ = make_throughput()
    throughput.step(64)

    assert throughput.seconds_per_step() == 0.0
    assert throughput.rows_per_second() is None


def test_pace_is_the_mean_of_steps() -> None:
    throughput, clock = make_throughput()
    for seconds in (0.0, 0.1, 0.3):
        clock.pass_(seconds)
        throughput.step(64)

    assert throughput.seconds_per_step() == pytest.approx(0.2)
    assert throughput.rows_per_second() == pytest.approx(128 / 0.4)


def test_what_is_long_ago_no_longer_counts() -> None:
    throughput, clock = make_throughput()
    for seconds in [0.0] + [1.0] * 3 + [0.1] * 100:
        clock.pass_(seconds)
        throughput.step(10)

    assert throughput.seconds_per_step() == pytest.approx(0.1)


def test_slow_steps_are_kept_however_long_they_take() -> None:
    throughput, clock = make_throughput()
    throughput.step(10)
    for _ in range(5):
        clock.pass_(1.9)
        throughput.step(10)
    for _ in range(3):
        clock.pass_(9.0)
        throughput.step(10)

    assert throughput.seconds_per_step() == pytest.approx(9.0)


def test_an_evaluation_between_two_steps_is_no_pace() -> None:
    throughput, clock = make_throughput()
    for seconds in (0.0, 0.1, 0.1, 60.0, 0.1):
        clock.pass_(seconds)
        throughput.step(10)

    assert throughput.seconds_per_step() == pytest.approx(0.1)


def test_the_time_that_is_left_is_not_known_before_the_second_step() -> None:
    throughput, clock = make_throughput()
    assert throughput.seconds_left(570) is None
    throughput.step(10)
    assert throughput.seconds_left(570) is None
    clock.pass_(0.5)
    throughput.step(10)

    assert throughput.seconds_left(570) == pytest.approx(285.0)
    assert throughput.seconds_left(0) == 0.0
