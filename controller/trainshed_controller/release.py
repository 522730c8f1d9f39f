"""On which RayCluster an attempt runs, and until when. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed_api.status import AttemptStatus
    from trainshed_controller.model import RayJobView


def cluster_of_attempt(job: RayJobView | None, attempt: AttemptStatus) -> str:
    """Return the name of the RayCluster that an attempt runs on; empty while nobody knows it.

    job: of the attempt; of a cluster of the run's own KubeRay tells the name there first.
    """
    return (job.cluster if job else "") or attempt.ray_cluster


def is_shared(attempt: AttemptStatus) -> bool:
    """Return whether an attempt runs on a shared RayCluster, whatever its run's spec says by now.

    KubeRay names a cluster of the RayJob's own <rayjob>-<five characters>.
    """
    cluster = attempt.ray_cluster
    return bool(cluster) and not cluster.startswith(f"{attempt.ray_job}-")
