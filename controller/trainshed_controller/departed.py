"""Worker Pods that went: what Ray by itself finds out half a minute later."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed_controller.model import PodView

# A driver is told of each several times, and needs none of those that went long ago.
_MOST_PODS, _MOST_CLUSTERS = 50, 1_000


class Departed:
    """The names of the last worker Pods that went, by RayCluster."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], deque[str]] = {}

    def note(self, pod: PodView) -> None:
        """Take in that Kubernetes has a Pod no more; with a head its cluster goes, too."""
        if pod.is_head:
            return
        place = (pod.namespace, pod.cluster)
        names = self._names.pop(place, None) or deque(maxlen=_MOST_PODS)
        names.append(pod.name)
        self._names[place] = names  # the last one that lost a Pod stands last
        if len(self._names) > _MOST_CLUSTERS:
            del self._names[next(iter(self._names))]

    def of(self, namespace: str, cluster: str) -> tuple[str, ...]:
        """Return who went of a cluster, the last one last."""
        return tuple(self._names.get((namespace, cluster), ()))
