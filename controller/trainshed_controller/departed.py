"""Pods that went lately: what Ray by itself finds out half a minute later."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed_controller.model import PodView

# Drivers are told of each several times, and nobody asks for those that went long ago.
_MOST_PODS, _MOST_CLUSTERS = 50, 1_000


class Departed:
    """The last Pods that went, by RayCluster, as they were seen last."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], deque[PodView]] = {}

    def note(self, pod: PodView) -> None:
        """Take in that Kubernetes has a Pod no more."""
        place = (pod.namespace, pod.cluster)
        pods = self._pods.pop(place, None) or deque(maxlen=_MOST_PODS)
        pods.append(pod)
        self._pods[place] = pods  # the last one that lost a Pod stands last
        if len(self._pods) > _MOST_CLUSTERS:
            del self._pods[next(iter(self._pods))]

    def of(self, namespace: str, cluster: str) -> tuple[PodView, ...]:
        """Return who went of a cluster, the last one last."""
        return tuple(self._pods.get((namespace, cluster), ()))
