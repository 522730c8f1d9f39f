"""What Kubernetes tells of a loss while it goes on: Pods that go and get ready, a run's phase."""

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
_FIRST_SECONDS = 30.0


@dataclass(frozen=True)
class Stages:
    """Both watches of a RayCluster's Pods and of a TrainingRun."""

    pods: Watch
    phases: Watch

    def ready(self) -> frozenset[str]:
        """Return the names of the Pods that are ready now."""
        ready: set[str] = set()
        for _, line in list(self.pods.lines):
            event, name, *state = line.split(" ")
            is_ready = event != "DELETED" and state == ["True"]
            ready = ready | {name} if is_ready else ready - {name}
        return frozenset(ready)

    def gone_at(self, names: frozenset[str]) -> float | None:
        """Return when the last of these Pods was gone; None while one is there."""
        gone = {
            line.split(" ")[1]: at
            for at, line in list(self.pods.lines)
            if line.startswith("DELETED ") and line.split(" ")[1] in names
        }
        return max(gone.values()) if set(gone) == names else None

    def ready_at(self, count: int, besides: frozenset[str]) -> float | None:
        """Return when so many Pods were ready first that are none of those; None before."""
        ready: set[str] = set()
        for at, line in list(self.pods.lines):
            name, state = line.split(" ")[1:3]
            if state == "True" and name not in besides:
                ready.add(name)
            if len(ready) >= count:
                return at
        return None

    def phase_at(self, phase: str, after: float) -> float | None:
        """Return when the run was in that phase first after a time; None where it was not."""
        found = (at for at, line in list(self.phases.lines) if line == phase and at >= after)
        return next(found, None)


@contextmanager
def watch_stages(runs: Runs, name: str) -> Iterator[Stages]:
    """Watch the Pods of the shared cluster and, where there is one, the TrainingRun of a name."""
    label = f"-lray.io/cluster={runs.release}"
    pods = ("get", "pods", label, "-w", "--output-watch-events", _POD)
    phases = ("get", "trun", name, "-w", _PHASE)
    with runs.follow(*pods) as of_pods, runs.follow(*phases) as of_run:
        assert wait_for(lambda: bool(of_pods.lines), _FIRST_SECONDS)
        yield Stages(of_pods, of_run)
