"""Metrics for Prometheus: controller-runtime's names where they exist, and our own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

from trainshed_api.names import BUCKETS
from trainshed_controller.status import open_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        self._reconciles = Counter(
            "controller_runtime_reconcile", "Reconciliations of a run.", ("controller", "result"),
            registry=self.registry,
        )  # fmt: skip
        self._reconcile_time = Histogram(
            "controller_runtime_reconcile_time_seconds", "Seconds of a "
                                                         "reconciliation.", ("controller",),
            registry=self.registry,
        )  # fmt: skip
        self._queue_time = Histogram(
            "workqueue_queue_duration_seconds", "Seconds that a key waits in the queue.", ("name",),
            registry=self.registry,
        )  # fmt: skip
        self._errors = Counter(
            "controller_runtime_reconcile_errors",
            "Failed reconciliations, which are retried.",
            ("controller",),
            registry=self.registry,
        )
        self.internal_errors = Counter(
            "trainshed_internal_errors", "Internal errors of the controller.",
            registry=self.registry,
        )  # fmt: skip
        self.attempts = Counter("trainshed_attempts", "RayJobs created.", registry=self.registry)
        self.restarts = Counter(
            "trainshed_restarts", "Attempts after the first of a run.", ("reason",),
            registry=self.registry,
        )  # fmt: skip
        self._finished = Counter(
            "trainshed_finished", "Runs that finished.", ("phase",), registry=self.registry
        )
        # Prometheus sees no increase in a series that begins with 1.
        self.restarts.labels("Stalled")
        for phase in _FINISHED:
            self._finished.labels(phase)
        self.status_writes = Counter(
            "trainshed_status_writes", "Status patches.", registry=self.registry
        )
        self.snapshots = Counter(
            "trainshed_snapshots",
            "Progress snapshots from drivers.",
            ("answer",),
            registry=self.registry,
        )
        self.refused_connections = Counter(
            "trainshed_refused_connections", "Connections of drivers refused at the limit.",
            registry=self.registry,
        )  # fmt: skip
        self._waited = Histogram(
            "trainshed_queue_wait_seconds", "Seconds a run waited for capacity.", buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.leads: Callable[[], bool] = lambda: False
        Gauge(
            "trainshed_leader", "Whether this replica of the controller acts: 1 or 0.",
            registry=self.registry,
        ).set_function(lambda: float(self.leads()))  # fmt: skip
        self.registry.register(_Runs(cache))

    def watch(self, queue: WorkQueue) -> None:
        """Follow a queue."""
        queue.waited = self._queue_time.labels("trainingrun").observe
        self.registry.register(_Depth(queue))

    def turn(self, key: Key, seconds: float, *, failed: bool) -> None:
        """Count one look."""
        controller = _CONTROLLERS[key.kind]
        self._reconciles.labels(controller, "error" if failed else "success").inc()
        self._reconcile_time.labels(controller).observe(seconds)
        if failed:
            self._errors.labels(controller).inc()

    def transition(self, before: RunView, after: RunView) -> None:
        """Count a change of phase."""
        if after.status.phase == "Restarting" and open_attempt(after.status) is None:
            self.restarts.labels(after.status.attempts[-1].reason).inc()
        if after.status.phase in _FINISHED and before.status.phase != after.status.phase:
            self._finished.labels(after.status.phase).inc()
        if before.status.phase == "Queued" and after.status.phase == "Starting":
            self._waited.observe(after.status.time.queued - before.status.time.queued)


class _Depth:
    """How many keys wait."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the figure of this moment."""
        family = GaugeMetricFamily("workqueue_depth", "Keys in the queue.", labels=["name"])
        family.add_metric(["trainingrun"], self._queue.depth)
        yield family


class _Runs:
    """What the runs are doing, counted when somebody asks."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield runs by phase, and the time of all existing runs by bucket."""
        phases = GaugeMetricFamily(
            "trainshed_runs", "TrainingRuns by phase.", labels=["namespace", "phase"]
        )
        times = GaugeMetricFamily(
            "trainshed_run_seconds",
            "Seconds of all runs by bucket.",
            labels=["namespace", "bucket"],
        )
        waits = GaugeMetricFamily(
            "trainshed_longest_wait_seconds",
            "Seconds that the run has been Queued that has been so longest.",
            labels=["namespace"],
        )
        now = datetime.now(UTC)
        longest: dict[str, float] = {}
        counts: dict[tuple[str, str], int] = {}
        seconds: dict[tuple[str, str], float] = {}
        for view in self._cache.runs.all():
            place = (view.namespace, view.status.phase or "New")
            counts[place] = counts.get(place, 0) + 1
            since = view.status.phase_time if view.status.phase == "Queued" else None
            wait = (now - since).total_seconds() if since else 0.0
            longest[view.namespace] = max(wait, longest.get(view.namespace, 0.0))
            spent = view.status.time.model_dump(by_alias=True)
            for bucket in BUCKETS:
                where = (view.namespace, bucket)
                seconds[where] = seconds.get(where, 0.0) + spent[bucket]
        for (namespace, phase), count in counts.items():
            phases.add_metric([namespace, phase], count)
        for (namespace, bucket), total in seconds.items():
            times.add_metric([namespace, bucket], total)
        for namespace, wait in longest.items():
            waits.add_metric([namespace], wait)
        yield phases
        yield waits
        yield times
