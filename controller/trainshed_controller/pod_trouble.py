"""Why Pods do not start, as the kubelet and the scheduler say it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainshed_controller.model import PodView

IMAGE_PULL_FAILED: Final = "ImagePullFailed"
# Reasons of a container that waits for its image: pkg/kubelet/images/types.go of Kubernetes.
NO_IMAGE: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)


class PodTrouble(NamedTuple):
    """Why a Pod does not start: in one word, and for people."""

    reason: Literal["ImagePullFailed", "ContainerConfigError", "Unschedulable"]
    message: str


def worst_trouble(pods: Iterable[PodView]) -> PodTrouble | None:
    """Return why Pods do not start; an image that cannot be pulled comes first."""
    troubles = [pod.trouble for pod in pods if pod.trouble]
    return min(troubles, key=lambda each: (each.reason != IMAGE_PULL_FAILED, each), default=None)
