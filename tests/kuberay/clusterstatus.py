"""The status of a RayCluster, from its Pods and its Service: pure."""

from datetime import datetime

from tests.kuberay.names import LABEL_NODE_TYPE
from tests.kuberay.rayresources import HeadInfo, RayCluster, RayClusterStatus
from tests.kuberay.resources import Condition, Pod, Service

_NO_LIMIT = 2147483647
_NOT_YET = "RayCluster Pods are being provisioned for first time"


def compute_status(
    cluster: RayCluster, pods: list[Pod], service: Service | None, *, failed: bool, now: datetime
) -> RayClusterStatus:
    """Return the new status; `failed` says that this look at the cluster did not come through.

    Once ready, a cluster stays ready, whatever becomes of its Pods.
    """
    old = cluster.status
    status = old.model_copy(deep=True)
    status.observed_generation = cluster.metadata.generation
    _count(status, cluster, pods)
    if not failed and len(pods) == (status.desired_worker_replicas or 0) + 1 and _all_ready(pods):
        status.state, status.reason = "ready", None
    head = next((pod for pod in pods if pod.metadata.labels.get(LABEL_NODE_TYPE) == "head"), None)
    _set_conditions(status, pods, head, now)
    if service is not None:
        status.endpoints = {
            port.name: str(port.target_port or port.port) for port in service.spec.ports
        }
    status.head = _head_info(head, service)
    status.last_update_time = now
    if status.state and status.state != old.state:
        status.state_transition_times[status.state] = now
    return status


def is_worth_writing(old: RayClusterStatus, new: RayClusterStatus) -> bool:
    """Return whether KubeRay would write the new status: resources alone are no reason."""
    return any(
        getattr(old, field) != getattr(new, field)
        for field in (
            "state",
            "reason",
            "ready_worker_replicas",
            "available_worker_replicas",
            "desired_worker_replicas",
            "min_worker_replicas",
            "max_worker_replicas",
            "endpoints",
            "head",
            "conditions",
        )
    )


def _count(status: RayClusterStatus, cluster: RayCluster, pods: list[Pod]) -> None:
    workers = [pod for pod in pods if pod.metadata.labels.get(LABEL_NODE_TYPE) == "worker"]
    groups = cluster.spec.worker_group_specs
    status.ready_worker_replicas = sum(pod.is_ready for pod in workers)
    status.available_worker_replicas = sum(pod.status.phase == "Running" for pod in workers)
    status.desired_worker_replicas = sum(group.desired for group in groups)
    status.min_worker_replicas = sum(group.min_replicas or 0 for group in groups)
    highest = sum(_NO_LIMIT if g.max_replicas is None else g.max_replicas for g in groups)
    status.max_worker_replicas = min(highest, _NO_LIMIT)


def _all_ready(pods: list[Pod]) -> bool:
    return bool(pods) and all(pod.is_ready for pod in pods)


def _head_info(head: Pod | None, service: Service | None) -> HeadInfo:
    address = head.status.pod_ip if head else ""
    return HeadInfo(
        pod_ip=address,
        pod_name=head.name if head else "",
        service_ip=address,  # the Service is headless
        service_name=(service.metadata.name or "") if service else "",
    )


def _set_conditions(
    status: RayClusterStatus, pods: list[Pod], head: Pod | None, now: datetime
) -> None:
    _put(status, _head_condition(head), now)
    if not status.holds("RayClusterProvisioned"):
        _put(status, _provisioned(ready=_all_ready(pods)), now)


def _provisioned(*, ready: bool) -> Condition:
    return Condition(
        type="RayClusterProvisioned",
        status=str(ready),
        reason="AllPodRunningAndReadyFirstTime" if ready else "RayClusterPodsProvisioning",
        message="All Ray Pods are ready for the first time" if ready else _NOT_YET,
    )


def _head_condition(head: Pod | None) -> Condition:
    kind, missing = "HeadPodReady", "Head Pod not found"
    if head is None:
        return Condition(type=kind, status="False", reason="HeadPodNotFound", message=missing)
    ready = next((c for c in head.status.conditions if c.type == "Ready"), None)
    if ready is None:
        return Condition(type=kind, status="False", reason="Unknown")
    reason = ready.reason or ("HeadPodRunningAndReady" if ready.status == "True" else "Unknown")
    return Condition(type=kind, status=ready.status, reason=reason, message=ready.message)


def _put(status: RayClusterStatus, new: Condition, now: datetime) -> None:
    """Set a condition; its time moves only with its status."""
    for index, old in enumerate(status.conditions):
        if old.type == new.type:
            same = old.status == new.status
            new.last_transition_time = old.last_transition_time if same else now
            status.conditions[index] = new
            return
    new.last_transition_time = now
    status.conditions.append(new)
