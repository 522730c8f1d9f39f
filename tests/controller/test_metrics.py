"""What Prometheus reads of the controller."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.controller.builders_view import SETTINGS, make_view, with_status
from trainshed_api.status import TrainingRunStatus
from trainshed_controller.cache import Cache
from trainshed_controller.errors import RetryError
from trainshed_controller.metrics import Metrics
from trainshed_controller.model import Key


def test_one_label_names_a_controller_in_every_family() -> None:
    metrics = Metrics(Cache(SETTINGS))

    with pytest.raises(RetryError), metrics.turn(Key("run", "team", "digits")):
        raise RetryError("503")

    named = {"controller": "trainingrun"}
    read = metrics.registry.get_sample_value
    assert read("controller_runtime_reconcile_total", {**named, "result": "error"}) == 1
    assert read("controller_runtime_reconcile_errors_total", named) == 1
    assert read("controller_runtime_reconcile_time_seconds_count", named) == 1


def test_runs_that_finish_are_counted_from_zero_by_phase() -> None:
    metrics, running = Metrics(Cache(SETTINGS)), make_view()
    failed = with_status(running, TrainingRunStatus(phase="Failed"))

    metrics.transition(running, failed)

    read = metrics.registry.get_sample_value
    assert read("trainshed_finished_total", {"phase": "Failed"}) == 1
    assert read("trainshed_finished_total", {"phase": "Succeeded"}) == 0
    assert read("trainshed_restarts_total", {"reason": "Stalled"}) == 0


def test_messages_that_are_lost_are_counted_from_zero() -> None:
    read = Metrics(Cache(SETTINGS)).registry.get_sample_value

    lost = [read("trainshed_webhook_messages_total", {"result": r}) for r in ("failed", "dropped")]

    assert lost == [0, 0]


def test_the_longest_wait_is_that_of_a_queued_run() -> None:
    cache = Cache(SETTINGS)
    since = datetime.now(UTC) - timedelta(hours=2)
    status = TrainingRunStatus(phase="Queued", phase_time=since)
    cache.runs.put(with_status(make_view(), status))

    wait = Metrics(cache).registry.get_sample_value(
        "trainshed_longest_wait_seconds", {"namespace": "team"}
    )

    assert wait is not None
    assert 7_199 <= wait <= 7_260
