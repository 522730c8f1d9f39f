"""Watches the Pods of a cluster and the phase of a run while Pods are lost."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.e2e.running import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.runs import Runs, Watch

_READY = '{.object.status.conditions[?(@.type=="Ready")].status}'
_POD = "-ojsonpath={.type} {.object.metadata.name} " + _READY + '{"\\n"}'
_PHASE = '-ojsonpath={.status.phase}{"\\n"}'
_EVENTS = ("ADDED", "MODIFIED", "DELETED")
_FIRST_EVENT_SECONDS = 30.0


@dataclass(frozen=True)
class PodEvent:
    """An event of a Pod; `time` is in seconds since 1970."""

    time: float
    pod: str
    is_deleted: bool
    is_ready: bool


@dataclass(frozen=True)
class Stages:
    """Watches of the Pods of a RayCluster and of the phase of a TrainingRun."""

    pods: Watch
    phases: Watch

    def ready(self) -> frozenset[str]:
        """Return the names of the Pods that are ready now."""
        last = {event.pod: event for event in self._events()}
        return frozenset(
            pod for pod, event in last.items() if event.is_ready and not event.is_deleted
        )

    def deleted_at(self, names: frozenset[str]) -> float | None:
        """Return when the last of these Pods was deleted; None while one of them exists."""
        times = {
            event.pod: event.time
            for event in self._events()
            if event.is_deleted and event.pod in names
        }
        return max(times.values()) if set(times) == names else None

    def ready_at(self, count: int, besides: frozenset[str]) -> float | None:
        """Return when `count` Pods other than `besides` had become ready; None before."""
        ready: set[str] = set()
        for event in self._events():
            if event.is_ready and event.pod not in besides:
                ready.add(event.pod)
            if len(ready) >= count:
                return event.time
        return None

    def phase_at(self, phase: str, after: float) -> float | None:
        """Return when the run first had a phase after a time; None if it did not."""
        times = (time for time, line in list(self.phases.lines) if line == phase and time >= after)
        return next(times, None)

    def _events(self) -> Iterator[PodEvent]:
        """Yield the events of Pods, without other messages of kubectl."""
        for time, line in list(self.pods.lines):
            # A Pod without conditions has no third word.
            event, *words = line.split(" ")
            if event in _EVENTS and words:
                yield PodEvent(time, words[0], event == "DELETED", words[1:] == ["True"])


@contextmanager
def watch_stages(runs: Runs, name: str) -> Iterator[Stages]:
    """Watch the Pods of the shared cluster and the TrainingRun with this name, if there is one."""
    label = f"-lray.io/cluster={runs.release}"
    pods = ("get", "pods", label, "-w", "--output-watch-events", _POD)
    phases = ("get", "trun", name, "-w", _PHASE)
    with runs.follow(*pods) as pod_watch, runs.follow(*phases) as phase_watch:
        assert wait_for(lambda: bool(pod_watch.lines), _FIRST_EVENT_SECONDS)
        yield Stages(pod_watch, phase_watch)
