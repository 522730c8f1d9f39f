"""Events on RayClusters and RayJobs, as `kubectl describe` shows them."""

import logging
from datetime import datetime

from tests.kuberay.api import EVENTS, ApiError, KubeApi
from tests.kuberay.rayresources import RayCluster, RayJob
from tests.kuberay.resources import Manifest

_LOG = logging.getLogger(__name__)


async def tell(
    api: KubeApi, about: RayCluster | RayJob, reason: str, message: str, now: datetime
) -> None:
    """Post an event; one that cannot be posted is logged and forgotten."""
    _LOG.info("%s/%s %s: %s", about.namespace, about.name, reason, message)
    try:
        await api.create(EVENTS, about.namespace, _event(about, reason, message, now))
    except ApiError as error:
        _LOG.warning("no event: %s", error)


def _event(about: RayCluster | RayJob, reason: str, message: str, now: datetime) -> Manifest:
    is_bad = reason.startswith(("Failed", "Invalid", "RayClusterNotFound"))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{about.name[:50]}-", "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.metadata.uid,
        },
        "reason": reason,
        "message": message[:1024],
        "type": "Warning" if is_bad else "Normal",
        "source": {"component": "kuberay-operator"},
        "firstTimestamp": now.isoformat(),
        "lastTimestamp": now.isoformat(),
        "count": 1,
    }
