"""Pods and RayJobs that went lately, of which Ray or a driver does not know it yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_controller.model import PodView, RayJobView

# Each is reported to drivers several times; old ones are no longer needed.
_MOST_PODS, _MOST_CLUSTERS = 500, 1_000
# By then Ray has seen it, too. Of who went earlier a driver cannot say that it lost it just now.
_SECONDS = 300.0
_MOST_JOBS = 1_000


@dataclass(eq=False)
class DeletedPods:
    """The last Pods that went, by RayCluster, as they were seen last.

    Args:
        clock: seconds that only go on.
    """

    clock: Callable[[], float]
    _pods: dict[tuple[str, str], deque[tuple[float, PodView]]] = field(default_factory=dict)

    def record(self, pod: PodView) -> None:
        """Take in that Kubernetes has a Pod no more."""
        place = (pod.namespace, pod.cluster)
        pods = self._pods.pop(place, None) or deque(maxlen=_MOST_PODS)
        pods.append((self.clock(), pod))
        self._pods[place] = pods  # the last one that lost a Pod stands last
        if len(self._pods) > _MOST_CLUSTERS:
            del self._pods[next(iter(self._pods))]

    def of(self, namespace: str, cluster: str) -> tuple[PodView, ...]:
        """Return who went of a cluster in the last minutes, the last one last."""
        since = self.clock() - _SECONDS
        return tuple(pod for at, pod in self._pods.get((namespace, cluster), ()) if at >= since)


class DeletedJob(NamedTuple):
    """A RayJob that went; head: identity of the head of that time, at: when it went."""

    job: RayJobView
    head: str
    at: float


@dataclass(eq=False)
class DeletedJobs:
    """RayJobs that went while their drivers held capacity, until those are known to have ended.

    Args:
        clock: seconds that only go on.
    """

    clock: Callable[[], float]
    _jobs: dict[str, DeletedJob] = field(default_factory=dict)

    def record(self, job: RayJobView, head: str) -> None:
        """Take in that Kubernetes has a RayJob no more."""
        if job.reservation is None or job.is_over:
            return
        self._jobs[job.uid] = DeletedJob(job, head, self.clock())
        if len(self._jobs) > _MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]

    def of(self, namespace: str, cluster: str) -> tuple[DeletedJob, ...]:
        """Return who went of a shared cluster, the last one last."""
        place = (namespace, cluster)
        gone = self._jobs.values()
        return tuple(each for each in gone if (each.job.namespace, each.job.selector) == place)

    def seconds_since(self, gone: DeletedJob) -> float:
        """Return for how long a RayJob is gone."""
        return self.clock() - gone.at

    def drop(self, gone: DeletedJob) -> None:
        """Forget a RayJob whose driver ended."""
        self._jobs.pop(gone.job.uid, None)
