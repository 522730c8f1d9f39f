"""The status of a RayCluster, from its Pods and its Service: pure."""

from datetime import datetime
from decimal import Decimal

from tests.kuberay.names import LABEL_NODE_TYPE
from tests.kuberay.rayresources import HeadInfo, RayCluster, RayClusterStatus
from tests.kuberay.raystart import is_gpu
from tests.kuberay.resources import Condition, Pod, PodSpec, Service
from trainshed_api.quantity import parse_quantity

_NO_LIMIT = 2147483647
_NOT_YET = "RayCluster Pods are being provisioned for first time"
_SUSPENDING, _SUSPENDED = "RayClusterSuspending", "RayClusterSuspended"


def compute_status(
    cluster: RayCluster, pods: list[Pod], service: Service | None, *, failed: bool, now: datetime
) -> RayClusterStatus:
    """Return the new status; `failed` says that this look at the cluster did not come through.

    Once ready, a cluster stays ready until it is suspended, whatever becomes of its Pods.
    """
    old = cluster.status
    status = old.model_copy(deep=True)
    status.observed_generation = cluster.metadata.generation
    _count(status, cluster, pods)
    _sum_up(status, cluster)
    if not failed and len(pods) == (status.desired_worker_replicas or 0) + 1 and _all_ready(pods):
        status.state, status.reason = "ready", None
    head = next((pod for pod in pods if pod.metadata.labels.get(LABEL_NODE_TYPE) == "head"), None)
    _set_conditions(status, cluster, pods, head, now)
    if cluster.spec.suspend and not pods:
        status.state = "suspended"
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
    groups = [group for group in cluster.spec.worker_group_specs if not group.suspend]
    status.ready_worker_replicas = sum(pod.is_ready for pod in workers)
    status.available_worker_replicas = sum(pod.status.phase == "Running" for pod in workers)
    status.desired_worker_replicas = sum(group.desired for group in groups)
    status.min_worker_replicas = sum(group.min_replicas or 0 for group in groups)
    highest = sum(_NO_LIMIT if g.max_replicas is None else g.max_replicas for g in groups)
    status.max_worker_replicas = min(highest, _NO_LIMIT)


def _sum_up(status: RayClusterStatus, cluster: RayCluster) -> None:
    total = _asked(cluster.spec.head_group_spec.template.spec)
    for group in cluster.spec.worker_group_specs:
        if not group.suspend:
            for name, amount in _asked(group.template.spec).items():
                total[name] = total.get(name, Decimal(0)) + amount * (group.replicas or 0)
    status.desired_cpu = _spell(total.get("cpu", Decimal(0)))
    status.desired_memory = _spell(total.get("memory", Decimal(0)))
    gpus = sum((amount for name, amount in total.items() if is_gpu(name)), Decimal(0))
    status.desired_gpu = _spell(gpus)
    status.desired_tpu = _spell(total.get("google.com/tpu", Decimal(0)))


def _asked(spec: PodSpec) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for container in spec.containers:
        asked = container.resources.limits | container.resources.requests
        for name, quantity in asked.items():
            total[name] = total.get(name, Decimal(0)) + parse_quantity(str(quantity))
    return total


def _spell(amount: Decimal) -> str:
    if amount != amount.to_integral_value():
        return f"{int(amount * 1000)}m"
    whole, suffixes = int(amount), iter(("", "Ki", "Mi", "Gi", "Ti"))
    suffix = next(suffixes)
    while whole and whole % 1024 == 0 and suffix != "Ti":
        whole, suffix = whole // 1024, next(suffixes)
    return f"{whole}{suffix}"


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
    status: RayClusterStatus,
    cluster: RayCluster,
    pods: list[Pod],
    head: Pod | None,
    now: datetime,
) -> None:
    _put(status, _head_condition(head), now)
    suspended, suspending = status.holds(_SUSPENDED), status.holds(_SUSPENDING)
    if not status.holds("RayClusterProvisioned") and not suspended:
        _put(status, _provisioned(ready=_all_ready(pods)), now)
    if suspending:
        if not pods:
            _put(status, _provisioned(ready=False, message="RayCluster has been suspended"), now)
            _put(status, _condition(_SUSPENDING, holds=False), now)
            _put(status, _condition(_SUSPENDED, holds=True), now)
    elif suspended:
        if not cluster.spec.suspend:
            _put(status, _condition(_SUSPENDED, holds=False), now)
    else:
        _put(status, _condition(_SUSPENDED, holds=False), now)
        _put(status, _condition(_SUSPENDING, holds=cluster.spec.suspend), now)


def _provisioned(*, ready: bool, message: str = "") -> Condition:
    return Condition(
        type="RayClusterProvisioned",
        status=str(ready),
        reason="AllPodRunningAndReadyFirstTime" if ready else "RayClusterPodsProvisioning",
        message=message or ("All Ray Pods are ready for the first time" if ready else _NOT_YET),
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


def _condition(kind: str, *, holds: bool) -> Condition:
    return Condition(type=kind, status=str(holds), reason=kind)


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
