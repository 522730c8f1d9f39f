"""Why Pods do not start, as the kubelet, the scheduler and KubeRay say it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainshed_controller.model import ClusterView, PodView

IMAGE_PULL_FAILED: Final = "ImagePullFailed"


class PodTrouble(NamedTuple):
    """Why Pods do not start: in one word, and for people."""

    reason: Literal[
        "ImagePullFailed",
        "ContainerConfigError",
        "ContainerCrashes",
        "PodsRefused",
        "Unschedulable",
    ]
    message: str


def worst_trouble(pods: Iterable[PodView], cluster: ClusterView | None) -> PodTrouble | None:
    """Return why Pods of a RayCluster do not start; an image that cannot be pulled comes first."""
    troubles = [each.trouble for each in (*pods, cluster) if each and each.trouble]
    return min(troubles, key=lambda each: (each.reason != IMAGE_PULL_FAILED, each), default=None)
