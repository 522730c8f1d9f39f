"""How objects of the API server are read."""

import pytest
from pydantic import JsonValue

from tests.builders import make_document
from tests.controller.builders_view import NOW, make_head, make_worker, raw_pod
from trainshed_api.json_object import JsonObject
from trainshed_api.pod_trouble import PodTrouble
from trainshed_api.status import Reservation
from trainshed_controller.model import Room
from trainshed_controller.views import read_cluster, read_job, read_pod, read_run

Object = dict[str, JsonValue]


def make_raw(generation: int = 1, *, epochs: int = 1, labels: Object | None = None) -> Object:
    """Return a run as the API server sends it."""
    document = make_document(epochs=epochs)
    metadata: Object = {
        "name": "digits",
        "namespace": "team",
        "uid": "u",
        "generation": generation,
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-21T12:00:00Z",
        "labels": labels or {},
    }
    return {**document, "metadata": metadata, "status": {"observedGeneration": generation}}


def test_the_same_spec_is_kept_and_the_new_status_read() -> None:
    before = read_run(make_raw())

    after = read_run(make_raw() | {"status": {"observedGeneration": 2}}, before)

    assert after.run is before.run
    assert after.status.observed_generation == 2


@pytest.mark.parametrize(
    "raw", [make_raw(2, epochs=3), make_raw(labels={"kueue.x-k8s.io/queue-name": "research"})]
)
def test_what_asks_for_something_else_is_read(raw: Object) -> None:
    before = read_run(make_raw())

    after = read_run(raw, before)

    assert after.run == read_run(raw).run
    assert after.run != before.run


def test_a_run_that_was_refused_is_refused_again() -> None:
    refused = read_run(make_raw() | {"spec": {"epochs": 1}})

    again = read_run(make_raw() | {"spec": {"epochs": 1}}, refused)

    assert again.run is None
    assert again.problem == refused.problem


def ray_container(name: str) -> JsonObject:
    """Return a container as KubeRay makes that of Ray."""
    return {"name": name, "env": [{"name": "KUBERAY_GEN_RAY_START_CMD", "value": "ray start"}]}


@pytest.mark.parametrize(
    ("start", "want"),
    [
        ("ray start --num-cpus=8 --memory=1000 --block", Room("", 8.0, 1.0, 1000.0)),
        ("ray start --num-gpus=2 --num-cpus=$CPUS", Room("", 1.0, 2.0, 2.0**30)),
        ("ray start", Room("", 1.0, 1.0, 2.0**30)),
    ],
)
def test_what_ray_was_started_with_wins_over_what_admission_made_of_it(
    start: str, want: Room
) -> None:
    container = ray_container("ray-worker") | {
        "env": [{"name": "KUBERAY_GEN_RAY_START_CMD", "value": start}],
        "resources": {"limits": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}},
    }

    pod = read_pod(raw_pod(make_worker()) | {"spec": {"containers": [container]}})

    assert pod.offer == want


def killed(name: str) -> JsonObject:
    """Return the status of a container that the kernel killed and that waits to start again."""
    ended: JsonObject = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    waits: JsonObject = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    return {"name": name, "state": waits, "lastState": ended}


def test_a_pod_with_an_injected_sidecar_is_judged_by_its_ray_container() -> None:
    sidecar: JsonObject = {"name": "istio-proxy", "state": {"running": {}}}
    raw = raw_pod(make_head()) | {
        "spec": {"containers": [{"name": "istio-proxy"}, ray_container("mine")]},
        "status": {"containerStatuses": [sidecar, killed("mine")]},
    }

    pod = read_pod(raw)

    assert (pod.ended, pod.exit_code) == ("OOMKilled", 137)


@pytest.mark.parametrize("statuses", ["containerStatuses", "initContainerStatuses"])
def test_a_container_that_ends_again_and_again_is_named(statuses: str) -> None:
    ended: JsonObject = {"terminated": {"reason": "Error", "exitCode": 1}}
    container = killed("wait-gcs-ready") | {"lastState": ended}
    raw = raw_pod(make_worker()) | {"status": {statuses: [container]}}

    message = (
        "Pod trainshed-cpu-worker-0: container wait-gcs-ready ends again and again: Error, "
        "exit code 1"
    )
    assert read_pod(raw).trouble == PodTrouble("ContainerCrashes", message)


@pytest.mark.parametrize(
    ("disruption", "reason", "is_free"),
    [
        ("PreemptionByScheduler", "", True),
        ("DeletionByTaintManager", "", True),
        ("EvictionByEvictionAPI", "", True),
        ("DeletionByPodGC", "", True),
        ("TerminationByKubelet", "Terminated", True),
        ("TerminationByKubelet", "Evicted", False),
    ],
)
def test_a_disruption_is_preemption_unless_the_node_was_under_pressure(
    disruption: str, reason: str, *, is_free: bool
) -> None:
    condition: JsonObject = {"type": "DisruptionTarget", "status": "True", "reason": disruption}
    raw = raw_pod(make_head()) | {"status": {"conditions": [condition], "reason": reason}}

    assert read_pod(raw).preempted is is_free


def test_a_cluster_has_the_words_of_a_quota_that_refuses_its_pods() -> None:
    refused = 'pods "digits-1-x" is forbidden: exceeded quota: team, requested: limits.cpu=8'
    failure: JsonObject = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreateWorkerPod",
        "message": f"FailedCreateWorkerPod\n{refused}",
    }
    raw: JsonObject = {"metadata": {"name": "own"}, "status": {"conditions": [failure]}}

    message = f"RayCluster own: the API server refuses its Pods: FailedCreateWorkerPod {refused}"
    assert read_cluster(raw).trouble == PodTrouble("PodsRefused", message)


def test_of_a_reservation_only_the_known_fields_are_kept() -> None:
    written = '{"count": 2, "since": "2026-11-21T12:00:00Z", "x": [1, 2, 3]}'
    raw: JsonObject = {"metadata": {"annotations": {"trainshed.dev/reservation": written}}}

    job = read_job(raw)

    assert job.reservation == Reservation(count=2, since=NOW)
