"""Which Pods go and which come, one look at a time."""

import pytest

from tests.kuberay.builders import make_cluster, make_cluster_spec, make_group
from tests.kuberay.podplan import plan_pods
from tests.kuberay.pods import render_head_pod, render_worker_pod
from tests.kuberay.rayresources import RayCluster
from tests.kuberay.resources import ContainerState, ContainerStateEnded, ContainerStatus, Pod


def cluster(replicas: int = 2) -> RayCluster:
    spec = make_cluster_spec(make_group(replicas=replicas))
    made = RayCluster.model_validate(make_cluster(spec=spec))
    made.metadata.namespace = "team"
    return made


def pods_of(of: RayCluster) -> list[Pod]:
    group = of.spec.worker_group_specs[0]
    pods = [render_worker_pod(of, group, index) for index in range(group.desired)]
    pods.insert(0, render_head_pod(of))
    for number, pod in enumerate(pods):
        pod.metadata.name = f"pod-{number}"
        pod.status.phase = "Running"
    return pods


def end(pod: Pod, phase: str = "Running") -> None:
    pod.status.phase = phase
    ended = ContainerStateEnded(exit_code=137, reason="OOMKilled")
    pod.status.container_statuses = [
        ContainerStatus(name="ray", state=ContainerState(terminated=ended))
    ]


def test_a_cluster_that_has_all_is_left_alone() -> None:
    plan = plan_pods(cluster(), pods_of(cluster()))
    assert (plan.delete, plan.create, plan.failure) == ([], [], "")


def test_workers_beyond_those_that_are_wanted_go() -> None:
    plan = plan_pods(cluster(1), pods_of(cluster(2)))
    assert [pod.name for pod, _ in plan.delete] == ["pod-1"]
    assert not plan.create


def test_workers_take_the_free_places_of_their_group() -> None:
    pods = pods_of(cluster(3))
    del pods[2]
    [made] = plan_pods(cluster(3), pods).create
    assert made.metadata.labels["ray.io/worker-group-replica-index"] == "1"


@pytest.mark.parametrize("phase", ["Running", "Failed", "Succeeded"])
def test_a_head_that_ended_goes_first_and_everything_else_waits(phase: str) -> None:
    pods = pods_of(cluster())
    end(pods[0], phase)
    end(pods[1])
    plan = plan_pods(cluster(), pods)
    assert [pod.name for pod, _ in plan.delete] == ["pod-0"]
    assert "exit code 137, OOMKilled" in plan.delete[0][1]
    assert not plan.create
    assert plan.failure


def test_workers_that_ended_go_before_new_ones_come() -> None:
    pods = pods_of(cluster())
    end(pods[1])
    plan = plan_pods(cluster(3), pods)
    assert [pod.name for pod, _ in plan.delete] == ["pod-1"]
    assert not plan.create
    assert plan.failure == "delete 1 unhealthy worker Pods"


def test_a_pod_that_may_restart_by_itself_is_left_to_do_so() -> None:
    pods = pods_of(cluster())
    end(pods[0])
    pods[0].spec.restart_policy = "Always"
    assert not plan_pods(cluster(), pods).delete


def test_a_pod_that_is_on_its_way_out_still_counts() -> None:
    pods = pods_of(cluster())
    metadata = pods[1].metadata.manifest() | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    pods[1].metadata = pods[1].metadata.model_validate(metadata)
    plan = plan_pods(cluster(), pods)
    assert (plan.delete, plan.create) == ([], [])


def test_two_heads_are_one_too_many_for_the_stand_in_to_choose() -> None:
    pods = pods_of(cluster())
    plan = plan_pods(cluster(), [pods[0], *pods])
    assert "Please delete extra head pods" in plan.failure
    assert (plan.delete, plan.create) == ([], [])
