"""How an attempt ended, by what is known of it."""

from dataclasses import dataclass

import pytest

from tests.controller.builders_view import (
    NOW,
    later,
    make_facts,
    make_head,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    make_worker,
)
from trainshed_api.failure import FailurePolicySpec
from trainshed_api.progress import ResumePoint
from trainshed_api.records import CheckpointRecord
from trainshed_api.snapshot import Snapshot
from trainshed_api.status import AttemptStatus
from trainshed_controller.failure_policy import apply_rules, contains
from trainshed_controller.judge import Ending, judge
from trainshed_controller.model import PodView, RayJobView

ATTEMPT = AttemptStatus(
    number=1,
    generation=1,
    ray_job="digits-1",
    job_id="digits-0123abcd-1",
    start_time=NOW,
    head_identity="head-1/c1",
)


HEAD = make_head()


def word(code: int, cause: str | None = None) -> Snapshot:
    """Return a driver's last words."""
    return make_snapshot(state="Ended", outcome="Failed", exit_code=code, cause=cause)


def terminated(checkpoint: str, step: int | None = None) -> Snapshot:
    """Return the last words of a driver that resumed from `old`, step 5, and got SIGTERM."""
    return make_snapshot(
        state="Ended",
        outcome="Stopped",
        exit_code=143,
        resumed_from=ResumePoint(checkpoint="old", step=5),
        checkpoint=CheckpointRecord(path=checkpoint, step=step),
    )


def failed(message: str = "Job entrypoint command failed with exit code 1") -> RayJobView:
    return make_job(job_status="FAILED", deployment_status="Failed", message=message)


@dataclass(frozen=True)
class Row:
    job: RayJobView | None
    want: tuple[str, str] | None
    heard: Snapshot | None = None
    pods: tuple[PodView, ...] = ()
    head: PodView | None = HEAD


GONE = make_head(ended="OOMKilled", exit_code=137, node="node7")
ROWS = {
    "it runs": Row(make_job(job_status="RUNNING"), None),
    "a status that nobody knows is no end": Row(make_job(job_status="RESTING"), None),
    "Ray saw it succeed": Row(make_job(job_status="SUCCEEDED"), ("Succeeded", "Succeeded")),
    "KubeRay refuses the RayJob": Row(
        make_job(deployment_status="ValidationFailed"), ("Invalid", "RayJobRefused")
    ),
    "the program raised": Row(failed(), ("Application", "ApplicationFailed")),
    "the spec will not do here": Row(
        failed("failed with exit code 2"), ("Invalid", "Invalid"), word(2, "Invalid")
    ),
    "somebody else has the attempt": Row(
        failed("failed with exit code 75"), ("Infrastructure", "AttemptTaken")
    ),
    "the driver blames what it ran on": Row(
        failed(), ("Infrastructure", "InfrastructureFailed"), word(1, "Infrastructure")
    ),
    "the driver could not begin for what it ran on": Row(
        failed("failed with exit code 75"),
        ("Infrastructure", "InfrastructureFailed"),
        word(75, "Infrastructure"),
    ),
    "the driver was killed": Row(
        failed("failed with exit code 143"), ("Infrastructure", "DriverKilled")
    ),
    "the driver was terminated after a checkpoint": Row(
        failed("failed with exit code 143"), ("Preempted", "Terminated"), terminated("new")
    ),
    "the driver was terminated after a step": Row(
        failed("failed with exit code 143"), ("Preempted", "Terminated"), terminated("new", 6)
    ),
    "the driver was terminated after it saved the restored step again": Row(
        failed("failed with exit code 143"),
        ("Infrastructure", "DriverKilled"),
        terminated("new", 5),
    ),
    "the driver was terminated without a new checkpoint": Row(
        failed("failed with exit code 143"), ("Infrastructure", "DriverKilled"), terminated("old")
    ),
    "the driver's process was killed": Row(
        failed("failed with exit code -9"), ("Infrastructure", "DriverKilled")
    ),
    "the driver was killed under a shell": Row(
        failed("failed with exit code 137"), ("Infrastructure", "DriverKilled")
    ),
    "the driver crashed": Row(
        failed("failed with exit code -11"), ("Application", "ApplicationFailed")
    ),
    "a worker of another run ran out of memory": Row(
        failed(), ("Application", "ApplicationFailed"), pods=(make_worker(ended="OOMKilled"),)
    ),
    "a worker of its own ran out of memory": Row(
        failed(),
        ("OutOfMemory", "OutOfMemory"),
        make_snapshot(hosts=(make_worker().name,)),
        pods=(make_worker(ended="OOMKilled"),),
    ),
    "Ray lost the driver": Row(
        failed("Job supervisor actor died"), ("Infrastructure", "DriverKilled")
    ),
    "packages cannot be had": Row(
        failed("runtime_env setup failed: no such package"), ("Application", "RuntimeEnvFailed")
    ),
    "the driver says that memory ran out": Row(
        failed(), ("OutOfMemory", "OutOfMemory"), word(1, "OutOfMemory")
    ),
    "Ray says that memory ran out": Row(
        failed("ray.exceptions.OutOfMemoryError: exit code 1"), ("OutOfMemory", "OutOfMemory")
    ),
    "the head's memory ran out": Row(
        make_job(job_status="RUNNING"), ("OutOfMemory", "OutOfMemory"), pods=(GONE,), head=None
    ),
    "the head was evicted": Row(
        make_job(job_status="RUNNING"),
        ("Infrastructure", "HeadEvicted"),
        pods=(make_head(uid="head-1", evicted="The node was low on memory"),),
        head=None,
    ),
    "the head had to make room": Row(
        make_job(job_status="RUNNING"),
        ("Preempted", "Preempted"),
        pods=(make_head(preempted=True),),
        head=None,
    ),
    "the head has another container": Row(
        make_job(job_status="RUNNING"), ("Infrastructure", "HeadLost"), head=make_head("c2")
    ),
    "KubeRay gave up": Row(
        make_job(
            job_status="RUNNING",
            deployment_status="Failed",
            reason="JobStatusCheckTimeoutExceeded",
        ),
        ("Infrastructure", "JobStatusCheckTimeoutExceeded"),
    ),
    "the RayJob is being deleted": Row(
        make_job(job_status="RUNNING", deleting=True), ("Infrastructure", "RayJobDeleted")
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_ending(name: str) -> None:
    row = ROWS[name]
    view = make_view()
    assert view.run
    seen = make_seen(ray_job=row.job, snapshot=row.heard, pods=row.pods, head=row.head)
    facts = make_facts(view, ATTEMPT, seen, later(10))

    ending = judge(facts)

    assert (ending and (ending.outcome, ending.reason)) == row.want


def test_the_cause_is_told_without_colours_and_last_lines() -> None:
    view = make_view()
    assert view.run
    job = failed("\x1b[36m(pid=1)\x1b[0m ValueError: x\ntrainshed.dev/snapshot: {}")
    facts = make_facts(view, ATTEMPT, make_seen(ray_job=job), later(10))

    ending = judge(facts)

    assert ending
    assert ending.message == "(pid=1) ValueError: x"


RULES = FailurePolicySpec.model_validate(
    {
        "rules": [
            {"exitCodes": [137], "action": "Fail"},
            {"logPattern": "NCCL*timeout", "action": "Retry"},
        ]
    }
)
FAILURES = {
    "by its exit code": (Ending("Application", "R", exit_code=137), ("Application", True)),
    "by its text": (
        Ending("Application", "R", "x", 1, logs="NCCL watchdog timeout"),
        ("Infrastructure", False),
    ),
    "a terminated driver by its exit code": (
        Ending("Preempted", "Terminated", exit_code=137),
        ("Preempted", True),
    ),
    "by none": (Ending("Application", "R", "timeout before NCCL", 1), ("Application", False)),
    "success has no rule": (Ending("Succeeded", "R", exit_code=137), ("Succeeded", False)),
}


@pytest.mark.parametrize("name", FAILURES)
def test_rule_of_the_user(name: str) -> None:
    ending, want = FAILURES[name]

    changed, is_final = apply_rules(ending, RULES)

    assert (changed.outcome, is_final) == want


@pytest.mark.parametrize(
    ("pattern", "want"), [("a*c", True), ("c*a", False), ("", True), ("abc", True), ("*", True)]
)
def test_pattern(pattern: str, *, want: bool) -> None:
    assert contains("xx abc", pattern) is want
