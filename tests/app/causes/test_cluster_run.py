"""The cause of what a TrainingRun in Kubernetes did, by its objects as the API server has them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.app.cli_here import trainshed_here
from tests.app.ray_run import write_run
from trainshed.causes.chain import telling_lines
from trainshed.causes.cluster_run import ClusterRun, explain
from trainshed_api.json_object import JsonObject, as_object, objects

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from trainshed.causes.chain import Diagnosis

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
IMAGE = "registry.example/trainshed:1"
RESTARTED: JsonObject = {"running": {"startedAt": "2026-11-28T11:50:00Z"}}


def at(minutes: float) -> str:
    """Return the moment so many minutes before now, as Kubernetes writes it."""
    return (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str, reason: str, message: str = "") -> JsonObject:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at(5),
    }


def make_run(phase: str | None, *conditions: JsonObject, **status: JsonValue) -> JsonObject:
    """Return a TrainingRun that was made an hour ago."""
    told: JsonObject = {"phase": phase, "conditions": list(conditions), **status}
    return {
        "kind": "TrainingRun",
        "metadata": {"name": "digits", "uid": "run", "creationTimestamp": at(60)},
        "status": told if phase else {},
    }


def progressing(reason: str, message: str = "", status: str = "False") -> JsonObject:
    return condition("Progressing", status, reason, message)


def make_attempt(number: int = 1, **fields: JsonValue) -> JsonObject:
    """Return an attempt whose program started half an hour ago."""
    return {
        "number": number,
        "generation": 1,
        "rayJob": f"digits-{number}",
        "jobId": f"digits-{number}",
        "rayCluster": "shared",
        "startTime": at(30),
        **fields,
    }


def ended(outcome: str, reason: str, message: str, minutes: float = 5) -> JsonObject:
    """Return a run that failed with its only attempt."""
    attempt = make_attempt(outcome=outcome, reason=reason, message=message, endTime=at(minutes))
    failed = condition("Failed", "True", reason, message)
    return make_run("Failed", failed, attempts=[attempt], attempt=1)


def under_way(phase: str, *conditions: JsonObject, started: bool = True) -> JsonObject:
    """Return a run with an attempt that has not ended."""
    attempt = make_attempt(startTime=at(30) if started else None)
    progress: JsonObject = {"step": 12, "steps": 90}
    told: JsonObject = {"progress": progress} if phase == "Running" else {}
    return make_run(phase, *conditions, attempts=[attempt], attempt=1, **told)


def make_job(deployment: str = "Running", **metadata: JsonValue) -> JsonObject:
    return {
        "kind": "RayJob",
        "metadata": {"name": "digits-1", "uid": "job", **metadata},
        "status": {"jobDeploymentStatus": deployment},
    }


def ray_job(**status: JsonValue) -> JsonObject:
    """Return a RayJob with a status as KubeRay writes it."""
    return {**make_job(), "status": status}


def make_pod(name: str, state: JsonObject | None = None, **fields: JsonValue) -> JsonObject:
    """Return a Pod of the RayCluster; ready if its container has no other state."""
    kind = "head" if "head" in name else "worker"
    ready = "True" if state is None or "running" in state else "False"
    container: JsonObject = {"name": f"ray-{kind}", "image": IMAGE, "state": state or RESTARTED}
    limits: JsonObject = {"limits": {"memory": "4Gi"}}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": at(30),
            "labels": {"ray.io/node-type": kind, "ray.io/cluster": "shared"},
        },
        "spec": {
            "nodeName": "node-a",
            "containers": [{"name": f"ray-{kind}", "resources": limits}],
        },
        "status": {
            "conditions": [{"type": "Ready", "status": fields.pop("ready", ready)}],
            "containerStatuses": [container],
            **fields,
        },
    }


def waiting(reason: str, message: str = "") -> JsonObject:
    return {"waiting": {"reason": reason, "message": message}}


def killed(minutes: float, reason: str = "OOMKilled", code: int = 137) -> JsonObject:
    return {"terminated": {"reason": reason, "exitCode": code, "finishedAt": at(minutes)}}


def restarted(name: str, minutes: float) -> JsonObject:
    """Return a Pod whose container ran out of memory and runs again."""
    pod = make_pod(name)
    for status in objects(as_object(pod["status"])["containerStatuses"]):
        status["lastState"] = killed(minutes)
    return pod


def pending(name: str, message: str) -> JsonObject:
    """Return a Pod that no node takes."""
    pod = make_pod(name, {}, ready="False")
    scheduled = {**condition("PodScheduled", "False", "Unschedulable", message)}
    as_object(pod["status"])["conditions"] = [scheduled]
    return pod


def failed_pod(name: str, reason: str, message: str) -> JsonObject:
    """Return a Pod that the kubelet refused or ended ten minutes ago."""
    pod = make_pod(name, phase="Failed", reason=reason, message=message)
    unready = {**condition("Ready", "False", "PodFailed"), "lastTransitionTime": at(10)}
    as_object(pod["status"]).update(conditions=[unready], containerStatuses=[])
    return pod


def starting(name: str) -> JsonObject:
    """Return a worker whose init container waits for the head."""
    pod = make_pod(name, waiting("PodInitializing"))
    as_object(pod["status"])["initContainerStatuses"] = [
        {"name": "wait-gcs-ready", "image": IMAGE, "state": RESTARTED}
    ]
    return pod


def make_event(kind: str, uid: str, reason: str, message: str) -> JsonObject:
    about: JsonObject = {"kind": kind, "name": uid, "uid": uid}
    return {
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": "Warning",
        "lastTimestamp": at(2),
    }


def facts(run: JsonObject, **objects: object) -> ClusterRun:
    return ClusterRun(run, NOW, **{"job": make_job(), **objects})  # type: ignore[arg-type]


def queued_by_kueue(*conditions: JsonObject) -> ClusterRun:
    """Return a run whose Workload has these conditions."""
    run = make_run(
        "Queued",
        progressing("QueuedByKueue", "RayJob digits-1 waits for admission by Kueue"),
        attempts=[make_attempt(startTime=None)],
        attempt=1,
    )
    owned = {"ownerReferences": [{"uid": "job"}]}
    workload = {"metadata": owned, "status": {"conditions": list(conditions)}}
    return facts(run, job=make_job("Suspended"), workloads=[workload])


def explained(run: ClusterRun) -> Diagnosis:
    return explain(run, "digits", " -n team")


HEAD, WORKER = make_pod("c-head-1"), make_pod("c-worker-1")
NO_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
QUOTA = 'pods "c-worker-2" is forbidden: exceeded quota: team, requested: limits.cpu=8'
NO_PULL = 'failed to resolve reference "registry.example/trainshed:1": not found'
NAN = "NonFiniteLossError: the loss is NaN or infinite at step 7 (worker 0, step 6)"
DENIED = 'Failed to create RayCluster team/c: admission webhook "policy" denied the request'
LOW = "The node was low on resource: ephemeral-storage. Threshold quantity: 12Gi"
NO_DEVICE = (
    "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
    "nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"
)
ATTACHED = 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other-0'
NO_WEBHOOK = (
    'Internal error occurred: failed calling webhook "mpod.kb.io": no endpoints available for '
    'service "jobset-webhook-service"'
)
TOO_LATE = "Exceeded the PodsReady timeout team/rayjob-digits-1-1a2b3"
# What Ray makes of the answer of pip: RuntimeEnvSetupError and SubprocessCalledProcessError.
NO_PACKAGE = """runtime_env setup failed: Failed to set up runtime environment.
Could not create the actor because its associated runtime env failed to be created.
Traceback (most recent call last):
  File "/ray/_private/runtime_env/utils.py", line 105, in check_output_cmd
    raise SubprocessCalledProcessError(
ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[5] failed with the following \
details.
Command '['python', '-m', 'pip', 'install']' returned non-zero exit status 1.
Last 50 lines of stdout:
    ERROR: Could not find a version that satisfies the requirement timm==99
    ERROR: No matching distribution found for timm==99
"""
NO_SEGMENT = (
    "DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error, NCCL "
    "version 2.27.5"
)
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
HEAD_GONE = "the Ray head that had the job is gone: Pod c-head-1 on node node-a"


class Failure(NamedTuple):
    """Objects of a run, the link to blame, and words of the cause."""

    run: ClusterRun
    link: str
    words: str


FAILURES = {
    "a module that is missing": Failure(
        facts(ended("Invalid", "Invalid", "spec.train: got nowhere:train; expected a module")),
        "file",
        "spec.train: got nowhere:train",
    ),
    "a spec that the controller refuses": Failure(
        facts(make_run("Failed", condition("Accepted", "False", "Invalid", "spec.epochs: got 0"))),
        "file",
        "spec.epochs: got 0",
    ),
    "packages that cannot be installed": Failure(
        facts(ended("Application", "RuntimeEnvFailed", "runtime_env setup failed: pip: no timm")),
        "file",
        "pip: no timm",
    ),
    "no GPU on any node": Failure(
        facts(
            under_way("Starting", progressing("Unschedulable", NO_GPU), started=False),
            pods=[HEAD, pending("c-worker-1", NO_GPU)],
        ),
        "workers",
        f"no node accepts it: {NO_GPU}",
    ),
    "a request that exceeds the cluster": Failure(
        facts(make_run("Queued", progressing("ExceedsCluster", "can never fit: 8 GPUs"))),
        "admission",
        "can never fit: 8 GPUs",
    ),
    "a queue of other runs": Failure(
        facts(
            make_run(
                "Queued",
                progressing("Queued", "waits for 4 CPUs"),
                queue={"position": 2, "missing": "4 CPUs", "heldBy": ["letters"]},
            )
        ),
        "admission",
        "waits for 4 CPUs",
    ),
    "Kueue that has not admitted it": Failure(
        queued_by_kueue(condition("QuotaReserved", "False", "Pending", "no flavor fits")),
        "admission",
        "by Kueue: no flavor fits",
    ),
    "no controller": Failure(facts(make_run(None), job={}), "admission", "no controller"),
    "an image of one of two Pods that cannot be pulled": Failure(
        facts(
            under_way("Starting", progressing("ImagePullFailed"), started=False),
            pods=[HEAD, WORKER, make_pod("c-worker-2", waiting("ImagePullBackOff", NO_PULL))],
        ),
        "workers",
        f"Pod c-worker-2 on node node-a: image {IMAGE} cannot be pulled: {NO_PULL}",
    ),
    "an image of the cluster that a queued run waits for": Failure(
        facts(
            make_run("Queued", progressing("ImagePullFailed", "waits for 2 CPUs")),
            pods=[HEAD, make_pod("c-worker-1", waiting("ErrImagePull", NO_PULL))],
        ),
        "workers",
        NO_PULL,
    ),
    "a quota that refuses Pods": Failure(
        facts(
            under_way("Starting", progressing("PodsRefused", QUOTA), started=False),
            pods=[HEAD],
            cluster={
                "metadata": {"uid": "cluster"},
                "status": {
                    "conditions": [condition("ReplicaFailure", "True", "FailedCreatePod", QUOTA)]
                },
            },
        ),
        "workers",
        "exceeded quota: team",
    ),
    "a RayJob that the API server refuses": Failure(
        facts(make_run("Starting", progressing("RayJobRefused", "exceeded quota: count/rayjobs"))),
        "RayJob",
        "exceeded quota: count/rayjobs",
    ),
    "a Secret that is missing": Failure(
        facts(
            under_way("Starting", progressing("ContainerConfigError"), started=False),
            pods=[make_pod("c-head-1", waiting("CreateContainerConfigError", 'no secret "t"'))],
        ),
        "head",
        'no secret "t"',
    ),
    "a worker out of memory": Failure(
        facts(
            ended("OutOfMemory", "OutOfMemory", "Pod c-worker-1 on node node-a ran out of memory"),
            pods=[HEAD, restarted("c-worker-1", 6)],
        ),
        "workers",
        "container ray-worker ran out of memory, of which it may use 4Gi",
    ),
    "a head out of memory": Failure(
        facts(
            ended("Infrastructure", "HeadLost", HEAD_GONE),
            pods=[restarted("c-head-1", 6), WORKER],
        ),
        "head",
        "container ray-head ran out of memory",
    ),
    "a full object store": Failure(
        facts(ended("OutOfMemory", "OutOfMemory", "ObjectStoreFullError: Failed to put object")),
        "workers",
        "ObjectStoreFullError",
    ),
    "data that are missing": Failure(
        facts(
            ended(
                "Invalid",
                "Invalid",
                "spec.data.datasets.train.read.path: got s3://b/rows; expected a folder",
            )
        ),
        "data",
        "got s3://b/rows",
    ),
    "a corrupt file": Failure(
        facts(ended("Application", "ApplicationFailed", "DataError: part-2.parquet: row group 3")),
        "data",
        "part-2.parquet",
    ),
    "a loss that is no number": Failure(
        facts(ended("Application", "ApplicationFailed", f"{NAN}\nTraceback\n  File\n{NAN}")),
        "training",
        NAN,
    ),
    "a head that was lost": Failure(
        facts(ended("Infrastructure", "HeadLost", HEAD_GONE), pods=[HEAD, WORKER]),
        "head",
        "the Ray head that had the job is gone",
    ),
    "a token that Ray refuses": Failure(
        facts(
            under_way("Starting", progressing("Starting", "RayJob digits-1"), started=False),
            job=ray_job(jobDeploymentStatus="Running", jobStatusCheckFailureStartTime=at(4)),
            pods=[HEAD, WORKER],
        ),
        "RayJob",
        "KubeRay cannot ask Ray for the job for 4 min 00 s: Ray refuses its token, or",
    ),
    "a token that Ray refuses until KubeRay gives up": Failure(
        facts(
            ended(
                "Infrastructure",
                "JobStatusCheckTimeoutExceeded",
                "Job status checks have been failing since 2026-11-28 11:50:00; exceeded timeout",
            )
        ),
        "RayJob",
        "Job status checks have been failing",
    ),
    "a storage that is read-only": Failure(
        facts(
            ended(
                "Application",
                "ApplicationFailed",
                "OSError: [Errno 30] Read-only file system",
            )
        ),
        "driver",
        "Read-only file system",
    ),
    "a NetworkPolicy between worker and head": Failure(
        facts(
            under_way("Starting", progressing("Starting"), started=False),
            pods=[HEAD, starting("c-worker-1")],
        ),
        "workers",
        "cannot reach the Ray head",
    ),
    "a probe that is blocked": Failure(
        facts(
            under_way("Starting", progressing("Starting"), started=False),
            pods=[make_pod("c-head-1", ready="False")],
            events=[make_event("Pod", "c-head-1", "Unhealthy", "Readiness probe failed: timeout")],
        ),
        "head",
        "is not ready: Readiness probe failed: timeout",
    ),
    "a finalizer that is stuck": Failure(
        facts(
            under_way("Stopping", progressing("Suspended"), started=True),
            job=make_job(deletionTimestamp=at(20), finalizers=["ray.io/rayjob-finalizer"]),
        ),
        "RayJob",
        "RayJob digits-1 is being deleted for 20 min 00 s and waits for its finalizer "
        "ray.io/rayjob-finalizer",
    ),
    "a driver that says nothing": Failure(
        facts(
            under_way(
                "Running", progressing("Training", "no heartbeat from the driver for 4 minutes")
            )
        ),
        "driver",
        "no heartbeat from the driver for 4 minutes",
    ),
    "workers that restart": Failure(
        facts(under_way("Restarting", progressing("WorkersLost", "workers are lost: Pod w"))),
        "workers",
        "workers are lost: Pod w",
    ),
    "a policy that refuses the RayCluster": Failure(
        facts(
            under_way("Starting", progressing("Starting"), started=False),
            job=make_job("Initializing"),
            events=[make_event("RayJob", "job", "FailedToCreateRayCluster", DENIED)],
        ),
        "RayJob",
        DENIED,
    ),
    "a stall": Failure(
        facts(ended("Infrastructure", "Stalled", "no step within stallDeadlineSeconds (1800)")),
        "training",
        "no step within stallDeadlineSeconds",
    ),
    # ------------------------------------------------- failures of public issues
    # ray-project/kuberay#2125
    "a head that was evicted": Failure(
        facts(
            under_way("Starting", progressing("Starting"), started=False),
            job=make_job("Initializing", creationTimestamp=at(9)),
            pods=[failed_pod("c-head-1", "Evicted", LOW)],
        ),
        "head",
        f"Pod c-head-1 on node node-a: Evicted: {LOW}",
    ),
    "the only worker, that was evicted": Failure(
        facts(
            under_way("Starting", progressing("Starting"), started=False),
            job=make_job("Initializing", creationTimestamp=at(9)),
            pods=[HEAD, failed_pod("c-worker-1", "Evicted", LOW)],
        ),
        "workers",
        f"Pod c-worker-1 on node node-a: Evicted: {LOW}",
    ),
    # kubernetes/kubernetes#130145
    "a GPU that the node does not have": Failure(
        facts(
            under_way("Starting", progressing("Starting"), started=False),
            pods=[HEAD, failed_pod("c-worker-1", "UnexpectedAdmissionError", NO_DEVICE)],
        ),
        "workers",
        f"Pod c-worker-1 on node node-a: UnexpectedAdmissionError: {NO_DEVICE}",
    ),
    # kubernetes/kubernetes#82453
    "a volume that another Pod has": Failure(
        facts(
            under_way("Starting", progressing("Starting"), started=False),
            pods=[HEAD, make_pod("c-worker-1", waiting("ContainerCreating"))],
            events=[
                make_event("Pod", "c-worker-1", "FailedAttachVolume", ATTACHED),
                {**make_event("Pod", "c-worker-1", "Failed", "earlier"), "lastTimestamp": at(9)},
            ],
        ),
        "workers",
        f"Pod c-worker-1 on node node-a: is not ready: ContainerCreating: {ATTACHED}",
    ),
    # kubernetes-sigs/jobset#361
    "a webhook that does not answer": Failure(
        facts(
            under_way("Starting", progressing("PodsRefused", NO_WEBHOOK), started=False),
            cluster={
                "metadata": {"name": "c", "uid": "cluster"},
                "status": {
                    "conditions": [
                        condition(
                            "ReplicaFailure",
                            "True",
                            "FailedCreateHeadPod",
                            f"FailedCreateHeadPod\n{NO_WEBHOOK}",
                        )
                    ]
                },
            },
        ),
        "head",
        NO_WEBHOOK,
    ),
    # ray-project/kuberay#1187
    "a DNS that does not know the head": Failure(
        facts(
            under_way("Starting", progressing("Starting"), started=False),
            pods=[HEAD, starting("c-worker-1")],
        ),
        "workers",
        "cannot reach the Ray head: its DNS name or port 6379 does not answer",
    ),
    "workers that wait for a head without a Pod": Failure(
        facts(
            under_way("Starting", progressing("Starting"), started=False),
            pods=[starting("c-worker-1")],
        ),
        "workers",
        "cannot reach the Ray head",
    ),
    # kubernetes-sigs/kueue#599
    "an admission that Kueue takes back": Failure(
        queued_by_kueue(
            condition("QuotaReserved", "False", "Pending", TOO_LATE),
            condition("PodsReady", "False", "WaitForStart"),
            condition("Evicted", "True", "PodsReadyTimeout", TOO_LATE),
            condition("Requeued", "False", "PodsReadyTimeout", TOO_LATE),
        ),
        "admission",
        f"by Kueue: {TOO_LATE}",
    ),
    # ray-project/ray#38312
    "a package that pip does not find": Failure(
        facts(ended("Application", "RuntimeEnvFailed", NO_PACKAGE)),
        "file",
        "runtime_env setup failed: ERROR: No matching distribution found for timm==99",
    ),
    # NVIDIA/nccl#983
    "a shared memory that is too small": Failure(
        facts(ended("OutOfMemory", "OutOfMemory", f"shared memory ran out: {NO_SEGMENT}")),
        "workers",
        "shared memory ran out: DistBackendError: NCCL error",
    ),
    # ----------------------------------------------------------- two failures
    "a node that shuts down, then a lost head": Failure(
        facts(
            ended("Infrastructure", "HeadLost", HEAD_GONE),
            pods=[failed_pod("c-worker-1", "Terminated", SHUTDOWN)],
        ),
        "workers",
        f"Terminated: {SHUTDOWN}; then {HEAD_GONE}",
    ),
    "a worker out of memory, then a lost head": Failure(
        facts(
            ended("Infrastructure", "HeadLost", HEAD_GONE), pods=[HEAD, restarted("c-worker-1", 7)]
        ),
        "workers",
        f"ran out of memory, of which it may use 4Gi (OOMKilled); then {HEAD_GONE}",
    ),
    "a loss that is no number, and later a Pod without image": Failure(
        facts(
            ended("Application", "ApplicationFailed", NAN),
            pods=[HEAD, make_pod("c-worker-1", waiting("ErrImagePull", NO_PULL))],
        ),
        "training",
        NAN,
    ),
    "a lost head, and later a worker out of memory": Failure(
        facts(
            ended("Infrastructure", "HeadLost", HEAD_GONE), pods=[HEAD, restarted("c-worker-1", 2)]
        ),
        "head",
        HEAD_GONE,
    ),
    "a Pod without image, while another one waits for a node": Failure(
        facts(
            under_way("Starting", progressing("ImagePullFailed"), started=False),
            pods=[
                HEAD,
                pending("c-worker-1", NO_GPU),
                make_pod("c-worker-2", waiting("ErrImagePull", NO_PULL)),
            ],
        ),
        "workers",
        NO_PULL,
    ),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_the_cause_is_found_in_the_objects_of_a_run(failure: Failure) -> None:
    found = explained(failure.run)

    assert failure.words in found.cause
    assert found.culprits[0].name == failure.link
    assert "kubectl -n team " in found.next


HEALTHY = {
    "a run that trains": facts(
        under_way("Running", progressing("Training", status="True")), pods=[HEAD, WORKER]
    ),
    "a run on a cluster with a Pod that it does not need": facts(
        under_way("Running", progressing("Training", status="True")),
        pods=[HEAD, WORKER, pending("c-gpu-worker-1", NO_GPU)],
    ),
    "a run whose worker came back": facts(
        under_way("Running", progressing("Training", status="True")),
        pods=[HEAD, restarted("c-worker-1", 20)],
    ),
    "a run whose head restarted before it": facts(
        under_way("Starting", progressing("Starting"), started=False),
        job=make_job("Initializing", creationTimestamp=at(10)),
        pods=[restarted("c-head-1", 40), WORKER],
    ),
    "a run whose Pods failed before it": facts(
        under_way("Starting", progressing("Starting"), started=False),
        job=make_job("Initializing", creationTimestamp=at(9)),
        pods=[
            HEAD,
            WORKER,
            failed_pod("c-head-0", "Evicted", LOW),
            failed_pod("c-worker-0", "Evicted", LOW),
            make_pod(
                "c-worker-2",
                {},
                phase="Failed",
                reason="UnexpectedAdmissionError",
                message=NO_DEVICE,
                startTime=at(10),
            ),
        ],
    ),
    "a run that begins": facts(
        under_way("Starting", progressing("Starting"), started=False),
        job=make_job("Initializing"),
        pods=[HEAD, WORKER],
    ),
    "a run that waits for data": facts(
        under_way(
            "Running",
            progressing("Training", "waiting for data takes 61 % of the time: decode", "True"),
        ),
        pods=[HEAD, WORKER],
    ),
    "a run whose driver evaluates": facts(
        under_way("Running", progressing("Training", "evaluating valid", "True")),
        pods=[HEAD, WORKER],
    ),
    "a run whose Ray cluster is slow to start": facts(
        under_way("Starting", progressing("Starting", "starting workers since 11:58:00 UTC")),
        pods=[
            {
                **HEAD,
                "metadata": {**as_object(HEAD["metadata"]), "creationTimestamp": at(0.5)},
                "status": {},
            },
            starting("c-worker-1"),
        ],
    ),
    "a run of which KubeRay misses one answer": facts(
        under_way("Starting", progressing("Starting"), started=False),
        job=ray_job(jobDeploymentStatus="Running", jobStatusCheckFailureStartTime=at(0.1)),
        pods=[HEAD, WORKER],
    ),
    "a run that succeeded": facts(
        make_run("Succeeded", attempts=[make_attempt(outcome="Succeeded")], attempt=1),
        pods=[HEAD, make_pod("c-worker-1", waiting("ErrImagePull", NO_PULL))],
    ),
    "a run that succeeded after a failure": facts(
        make_run(
            "Succeeded",
            attempts=[
                make_attempt(outcome="Infrastructure", reason="HeadLost", endTime=at(20)),
                make_attempt(2, outcome="Succeeded"),
            ],
            attempt=2,
        )
    ),
}


@pytest.mark.parametrize("run", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_run_blames_nothing(run: ClusterRun) -> None:
    found = explained(run)

    assert found.culprits == ()
    assert found.cause.startswith("Nothing")
    assert (found.events, found.log) == ((), ())


def test_a_slow_run_names_the_stage_that_limits_it() -> None:
    found = explained(HEALTHY["a run that waits for data"])

    assert found.cause == "Nothing is wrong, but waiting for data takes 61 % of the time: decode"


def test_the_phases_of_the_start_are_those_of_the_status_that_this_release_knows() -> None:
    attempt = make_attempt(start={"imports": 2.0, "compiling": 5.0, "ray": 9.0, "since": "noon"})

    found = explained(facts(make_run("Running", attempts=[attempt], attempt=1)))

    assert found.start == {"imports": 2.0, "Ray": 9.0}


def test_events_of_the_run_and_the_last_error_of_its_log_are_shown() -> None:
    run = facts(
        ended("Application", "ApplicationFailed", f"{NAN}\nValueError: first\n  x\n\n\n\n\n{NAN}"),
        pods=[HEAD],
        events=[
            make_event("Pod", "c-head-1", "BackOff", "restarting\ncontainer"),
            make_event("Pod", "another", "BackOff", "of another run"),
        ],
    )

    found = explained(run)

    assert found.events == ("Pod c-head-1: BackOff: restarting container",)
    assert found.log[-1] == NAN
    assert "ValueError: first" not in found.log


def test_a_status_of_another_release_leaves_the_run_unknown() -> None:
    found = explained(facts(make_run("Running", attempt="two")))

    assert (found.state, found.culprits) == ("Unknown", ())
    assert found.cause == "unknown: the status of the run is of another release"


def test_what_is_killed_is_the_last_error_only_if_nothing_else_is() -> None:
    killed_late = "Task was killed gracefully"

    assert telling_lines(["a", NAN, "b", killed_late])[-1] == NAN
    assert telling_lines(["a", killed_late, "b"])[-1] == killed_late


# ------------------------------------------------------------------- the edge

KUBECTL = r"""#!/bin/sh
case "$*" in
  *"get rayjob known"*) echo '{"status": {"rayClusterName": "shared"}}' ;;
  *"get trainingrun digits"*) cat "$0.run" ;;
  *"get rayjob"*) echo '{"kind": "RayJob", "metadata": {"name": "digits-1"}}' ;;
  *"get pods"*) cat "$0.pods" ;;
  *"logs c-worker-1"*) echo "Killed" ;;
  *) printf 'memcache.go: a try\nError from server (Forbidden): is forbidden\n' >&2; exit 1 ;;
esac
"""


def install_kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch, run: JsonObject) -> None:
    """Let a script answer as kubectl, which may read a run and its Pods alone."""
    script = folder / "kubectl"
    script.write_text(KUBECTL)
    script.chmod(0o755)
    (folder / "kubectl.run").write_text(json.dumps(run))
    pods = {"items": [HEAD, restarted("c-worker-1", 6)]}
    (folder / "kubectl.pods").write_text(json.dumps(pods))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(folder)


def test_what_may_not_be_read_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "Pod c-worker-1 on node node-a ran out of memory"
    install_kubectl(tmp_path, monkeypatch, ended("OutOfMemory", "OutOfMemory", message))

    said = trainshed_here("why", "digits", "-n", "team")

    assert "cause: Pod c-worker-1 on node node-a: container ray-worker ran out" in said.stdout
    assert "log:\n  Killed\n" in said.stdout
    assert said.stdout.endswith("next: kubectl -n team describe pod c-worker-1\n")


def test_pods_of_other_ray_clusters_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = make_attempt(rayCluster="", startTime=None)
    queued = make_run("Starting", progressing("Starting"), attempts=[attempt], attempt=1)
    install_kubectl(tmp_path, monkeypatch, queued)

    assert "c-worker-1" not in trainshed_here("why", "digits", "-n", "team").stdout


def test_a_ray_cluster_that_only_its_ray_job_names_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = make_attempt(rayCluster="", rayJob="known", startTime=None)
    begun = make_run("Starting", progressing("Starting"), attempts=[attempt], attempt=1)
    install_kubectl(tmp_path, monkeypatch, begun)

    assert "c-worker-1" in trainshed_here("why", "digits", "-n", "team").stdout


def test_a_run_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_kubectl(tmp_path, monkeypatch, make_run("Running"))

    said = trainshed_here("why", "letters")

    assert "NAME: got letters; expected the name, file or folder of a run" in said.stderr
    assert "is forbidden" in said.stderr
    assert "memcache" not in said.stderr


def test_a_file_without_a_run_here_is_looked_up_in_kubernetes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = under_way("Running", progressing("Training", status="True"))
    as_object(run["metadata"])["namespace"] = "team"
    install_kubectl(tmp_path, monkeypatch, run)
    (tmp_path / "users_module.py").write_text("def train(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = write_run(tmp_path, "digits", train="users_module:train")

    said = trainshed_here("why", str(file))

    assert said.stdout.splitlines()[0] == "digits: Running (namespace team)"
