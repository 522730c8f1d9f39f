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
_FIRST_SECONDS = 30.0


@dataclass(frozen=True)
class Seen:
    """An event of a Pod.

    Args:
        at: seconds since 1970.
    """

    at: float
    pod: str
    is_gone: bool
    is_ready: bool


@dataclass(frozen=True)
class Stages:
    """Both watches of a RayCluster's Pods and of a TrainingRun."""

    pods: Watch
    phases: Watch

    def ready(self) -> frozenset[str]:
        """Return the names of the Pods that are ready now."""
        ready: set[str] = set()
        for seen in self._seen():
            is_ready = not seen.is_gone and seen.is_ready
            ready = ready | {seen.pod} if is_ready else ready - {seen.pod}
        return frozenset(ready)

    def gone_at(self, names: frozenset[str]) -> float | None:
        """Return when the last of these Pods was gone; None while one is there."""
        gone = {seen.pod: seen.at for seen in self._seen() if seen.is_gone and seen.pod in names}
        return max(gone.values()) if set(gone) == names else None

    def ready_at(self, count: int, besides: frozenset[str]) -> float | None:
        """Return when so many Pods were ready first that are none of those; None before."""
        ready: set[str] = set()
        for seen in self._seen():
            if seen.is_ready and seen.pod not in besides:
                ready.add(seen.pod)
            if len(ready) >= count:
                return seen.at
        return None

    def phase_at(self, phase: str, after: float) -> float | None:
        """Return when the run was in that phase first after a time; None where it was not."""
        found = (at for at, line in list(self.phases.lines) if line == phase and at >= after)
        return next(found, None)

    def _seen(self) -> Iterator[Seen]:
        """Yield what the watch of Pods told; kubectl may say something of itself in between."""
        for at, line in list(self.pods.lines):
            # A Pod without conditions has no third word: nobody has looked at it yet.
            event, *told = line.split(" ")
            if event in _EVENTS and told:
                yield Seen(at, told[0], event == "DELETED", told[1:] == ["True"])


@contextmanager
def watch_stages(runs: Runs, name: str) -> Iterator[Stages]:
    """Watch the Pods of the shared cluster and, where there is one, the TrainingRun of a name."""
    label = f"-lray.io/cluster={runs.release}"
    pods = ("get", "pods", label, "-w", "--output-watch-events", _POD)
    phases = ("get", "trun", name, "-w", _PHASE)
    with runs.follow(*pods) as of_pods, runs.follow(*phases) as of_run:
        assert wait_for(lambda: bool(of_pods.lines), _FIRST_SECONDS)
        yield Stages(of_pods, of_run)
