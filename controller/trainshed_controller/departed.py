"""Pods and RayJobs that went lately: what Ray by itself finds out half a minute later."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_controller.model import PodView, RayJobView

V = TypeVar("V", "PodView", "RayJobView")
# Each is reported to drivers several times; old ones are no longer needed.
_MOST_PODS, _MOST_CLUSTERS = 500, 1_000
# By then Ray has seen it, too. Of who went earlier a driver cannot say that it lost it just now.
_SECONDS = 300.0


class Departed(Generic[V]):
    """The last objects that went, by RayCluster, as they were seen last.

    Args:
        clock: seconds that only go on.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pods: dict[tuple[str, str], deque[tuple[float, V]]] = {}

    def note(self, pod: V) -> None:
        """Take in that Kubernetes has an object no more."""
        place = (pod.namespace, pod.cluster)
        pods = self._pods.pop(place, None) or deque(maxlen=_MOST_PODS)
        pods.append((self._clock(), pod))
        self._pods[place] = pods  # the last one that lost a Pod stands last
        if len(self._pods) > _MOST_CLUSTERS:
            del self._pods[next(iter(self._pods))]

    def of(self, namespace: str, cluster: str) -> tuple[V, ...]:
        """Return who went of a cluster in the last minutes, the last one last."""
        since = self._clock() - _SECONDS
        return tuple(pod for at, pod in self._pods.get((namespace, cluster), ()) if at >= since)
