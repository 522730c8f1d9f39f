"""Metrics for Prometheus: controller-runtime's names where they exist, and our own."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

from trainshed_api.names import BUCKETS
from trainshed_controller.status import open_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from trainshed_controller.cache import Cache
    from trainshed_controller.model import Key, RunView
    from trainshed_controller.queue import WorkQueue

# The label `controller`, by kind of key.
_CONTROLLERS = {"run": "trainingrun", "cluster": "raycluster"}
_FINISHED = ("Succeeded", "Failed")
_SECONDS = (0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)


class Metrics:
    """All figures of this process."""

    def __init__(self, cache: Cache) -> None:
        self.registry = CollectorRegistry()
        counter = partial(prometheus_client.Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        of, name = ("controller",), "controller_runtime_reconcile"
        text = "Reconciliations of a run."
        self._reconciles = counter(name, text, (*of, "result"))
        self._reconcile_time = histogram(f"{name}_time_seconds", "Seconds of a reconciliation.", of)
        text = "Failed reconciliations, which are retried."
        self._errors = counter(f"{name}_errors", text, of)
        text = "Seconds that a key waits in the queue."
        self._queue_time = histogram("workqueue_queue_duration_seconds", text, ("name",))
        text = "Internal errors of the controller."
        self.internal_errors = counter("trainshed_internal_errors", text)
        self.attempts = counter("trainshed_attempts", "RayJobs created.")
        text = "Attempts after the first of a run."
        self.restarts = counter("trainshed_restarts", text, ("reason",))
        self._finished = counter("trainshed_finished", "Runs that finished.", ("phase",))
        # Prometheus sees no increase in a series that begins with 1.
        self.restarts.labels("Stalled")
        for phase in _FINISHED:
            self._finished.labels(phase)
        self.status_writes = counter("trainshed_status_writes", "Status patches.")
        text = "Progress snapshots from drivers."
        self.snapshots = counter("trainshed_snapshots", text, ("answer",))
        text = "Messages to the webhook, by what became of them."
        self.webhook_messages = counter("trainshed_webhook_messages", text, ("result",))
        # Prometheus sees no increase in a series that begins with 1.
        for result in ("failed", "dropped"):
            self.webhook_messages.labels(result)
        text = "Connections of drivers refused at the limit."
        self.refused_connections = counter("trainshed_refused_connections", text)
        text = "Seconds a run waited for capacity."
        self._waited = histogram("trainshed_queue_wait_seconds", text, buckets=_SECONDS)
        self.leads: Callable[[], bool] = lambda: False
        text = "Whether this replica of the controller acts: 1 or 0."
        leader = Gauge("trainshed_leader", text, registry=self.registry)
        leader.set_function(lambda: float(self.leads()))
        self.registry.register(_Runs(cache))

    def watch(self, queue: WorkQueue) -> None:
        """Follow a queue."""
        queue.waited = self._queue_time.labels("trainingrun").observe
        depth = Gauge("workqueue_depth", "Keys in the queue.", ("name",), registry=self.registry)
        depth.labels("trainingrun").set_function(lambda: queue.depth)

    @contextlib.contextmanager
    def turn(self, key: Key) -> Iterator[None]:
        """Count one look, and take its time."""
        controller, result = _CONTROLLERS[key.kind], "error"
        errors, seconds = self._errors.labels(controller), self._reconcile_time.labels(controller)
        try:
            with errors.count_exceptions(), seconds.time():
                yield
            result = "success"
        finally:
            self._reconciles.labels(controller, result).inc()

    def transition(self, before: RunView, after: RunView) -> None:
        """Count a change of phase."""
        if after.status.phase == "Restarting" and open_attempt(after.status) is None:
            self.restarts.labels(after.status.attempts[-1].reason).inc()
        if after.status.phase in _FINISHED and before.status.phase != after.status.phase:
            self._finished.labels(after.status.phase).inc()
        if before.status.phase == "Queued" and after.status.phase == "Starting":
            self._waited.observe(after.status.time.queued - before.status.time.queued)


class _Runs:
    """What the runs are doing, counted when somebody asks."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield runs by phase, and the time of all existing runs by bucket."""
        now = datetime.now(UTC)
        counts: Counter[tuple[str, ...]] = Counter()
        waits: dict[tuple[str, ...], float] = {}
        seconds: dict[tuple[str, ...], float] = defaultdict(float)
        for view in self._cache.runs.all():
            namespace, status = view.namespace, view.status
            counts[namespace, status.phase or "New"] += 1
            since = status.phase_time if status.phase == "Queued" else None
            wait = (now - since).total_seconds() if since else 0.0
            waits[namespace,] = max(wait, waits.get((namespace,), 0.0))
            spent = status.time.model_dump(by_alias=True)
            for bucket in BUCKETS:
                seconds[namespace, bucket] += spent[bucket]
        text = "Seconds that the run has been Queued that has been so longest."
        yield _gauge("trainshed_runs", "TrainingRuns by phase.", ("phase",), counts)
        yield _gauge("trainshed_longest_wait_seconds", text, (), waits)
        text = "Seconds of all runs by bucket."
        yield _gauge("trainshed_run_seconds", text, ("bucket",), seconds)


def _gauge(
    name: str, text: str, labels: Iterable[str], values: Mapping[tuple[str, ...], float]
) -> GaugeMetricFamily:
    """Return the values by namespace and labels."""
    gauge = GaugeMetricFamily(name, text, labels=["namespace", *labels])
    for where, value in values.items():
        gauge.add_metric(where, value)
    return gauge
