"""Which Pods of a RayCluster go and which come: pure, one look at a time."""

from dataclasses import dataclass, field

from tests.kuberay.names import (
    ANNOTATION_NO_HEAD_RESTART,
    LABEL_GROUP,
    LABEL_NODE_TYPE,
    LABEL_REPLICA_INDEX,
)
from tests.kuberay.pods import render_head_pod, render_worker_pod
from tests.kuberay.rayresources import RayCluster, WorkerGroup
from tests.kuberay.resources import Pod


@dataclass
class PodPlan:
    """What to do with Pods, in that order: deletions, creations, then the failure is raised."""

    delete: list[tuple[Pod, str]] = field(default_factory=list)
    """Pods and what the event says of them."""
    create: list[Pod] = field(default_factory=list)
    failure: str = ""
    """Why the rest waits for another look; a cluster is not called ready in this one."""


def plan_pods(cluster: RayCluster, pods: list[Pod]) -> PodPlan:
    """Return what brings the Pods of a cluster nearer to what it asks for.

    Pods that end are still there: KubeRay replaces a Pod only when it is gone.
    """
    plan = PodPlan()
    if _plan_head(plan, cluster, pods):
        for group in cluster.spec.worker_group_specs:
            if not _plan_group(plan, cluster, group, pods):
                break
    return plan


def ray_container_ended(pod: Pod) -> bool:
    """Return whether the Ray container of a Pod has ended and stays ended."""
    if pod.status.phase in {"Failed", "Succeeded"}:
        return True
    return (
        pod.status.phase == "Running"
        and pod.spec.restart_policy == "Never"
        and any(
            status.name == pod.spec.containers[0].name and status.state.terminated is not None
            for status in pod.status.container_statuses
        )
    )


def _plan_head(plan: PodPlan, cluster: RayCluster, pods: list[Pod]) -> bool:
    """Plan the head; return whether the workers can be planned too."""
    heads = [pod for pod in pods if pod.metadata.labels.get(LABEL_NODE_TYPE) == "head"]
    if len(heads) > 1:
        names = [pod.name for pod in heads]
        plan.failure = f"{len(heads)} head pods found {names}. Please delete extra head pods"
        return False
    if heads and ray_container_ended(heads[0]):
        plan.delete.append((heads[0], _deleted("head", heads[0])))
        plan.failure = f"the head Pod {heads[0].name} has ended and is deleted"
        return False
    if not heads:
        no_restart = cluster.metadata.annotations.get(ANNOTATION_NO_HEAD_RESTART) == "true"
        if no_restart and cluster.status.holds("RayClusterProvisioned"):
            return False
        plan.create.append(render_head_pod(cluster))
    return True


def _plan_group(plan: PodPlan, cluster: RayCluster, group: WorkerGroup, pods: list[Pod]) -> bool:
    """Plan a group; return whether the next one can be planned too."""
    there = [pod for pod in pods if pod.metadata.labels.get(LABEL_GROUP) == group.group_name]
    ended = [pod for pod in there if ray_container_ended(pod)]
    if ended:
        plan.delete += [(pod, _deleted("worker", pod)) for pod in ended]
        plan.failure = f"delete {len(ended)} unhealthy worker Pods"
        return False
    surplus = there[: max(len(there) - group.desired, 0)]
    plan.delete += [(pod, f"Deleted Pod {pod.name}") for pod in surplus]
    used = {pod.metadata.labels.get(LABEL_REPLICA_INDEX) for pod in there}
    free = [index for index in range(len(used) + group.desired) if str(index) not in used]
    missing = max(group.desired - len(there), 0)
    plan.create += [render_worker_pod(cluster, group, index) for index in free[:missing]]
    return True


def _deleted(node_type: str, pod: Pod) -> str:
    ended = [
        f"exit code {status.state.terminated.exit_code}, {status.state.terminated.reason}"
        for status in pod.status.container_statuses
        if status.state.terminated is not None
    ]
    return (
        f"Deleted {node_type} Pod {pod.metadata.namespace}/{pod.name}; "
        f"Pod status: {pod.status.phase}; Pod restart policy: {pod.spec.restart_policy}; "
        f"Ray container terminated status: {', '.join(ended) or 'nil'}"
    )
