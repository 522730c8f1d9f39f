"""What is said of Pods that are not well names the Pod, the reason and what to do."""

from dataclasses import dataclass, field

import pytest

from hack.cluster.diagnosis import ADVICE, find_unwell


def make_pod(phase: str, *containers: dict[str, object], **status: object) -> dict[str, object]:
    return {
        "metadata": {"name": "one", "namespace": "tests"},
        "status": {"phase": phase, "containerStatuses": list(containers), **status},
    }


def make_container(state: dict[str, object], **more: object) -> dict[str, object]:
    return {"name": "main", "ready": False, "state": state, **more}


def make_event(reason: str, message: str, *, pod: str = "one") -> dict[str, object]:
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "Pod", "name": pod},
    }


@dataclass(frozen=True)
class Case:
    pod: dict[str, object]
    want_says: tuple[str, ...]
    events: list[dict[str, object]] = field(default_factory=list)
    want_previous: bool = False


CASES = {
    "an image that nobody loaded": Case(
        make_pod(
            "Pending",
            make_container({"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}}),
        ),
        ("container main: waiting ErrImageNeverPull not there", "make cluster-load"),
    ),
    "a program that ends again and again": Case(
        make_pod(
            "Running",
            make_container(
                {"waiting": {"reason": "CrashLoopBackOff"}},
                lastState={"terminated": {"reason": "Error", "exitCode": 3}},
            ),
        ),
        ("CrashLoopBackOff; the run before: Error exit code 3", "it ends by itself"),
        want_previous=True,
    ),
    "a program that took too much memory": Case(
        make_pod(
            "Failed",
            make_container({"terminated": {"reason": "OOMKilled", "exitCode": 137}}),
        ),
        ("terminated OOMKilled exit code 137", "raise the limit"),
    ),
    "a Pod that fits nowhere": Case(
        make_pod("Pending"),
        ("FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu", "ask for less CPU"),
        events=[
            make_event("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu."),
            make_event("FailedMount", "of another", pod="two"),
        ],
    ),
    "a program that runs and is not ready": Case(
        make_pod("Running", make_container({"running": {"startedAt": "now"}})),
        ("container main: running, but is not ready", "a probe fails"),
        events=[make_event("Unhealthy", "Readiness probe failed")],
    ),
    "a step before the program that fails": Case(
        make_pod(
            "Pending",
            initContainerStatuses=[
                make_container({"terminated": {"reason": "Error", "exitCode": 1}}, name="wait")
            ],
        ),
        ("container wait: terminated Error exit code 1",),
    ),
    "a Pod that was pushed off the node": Case(
        make_pod("Failed", reason="Evicted", message="The node was low on resource: memory"),
        ("Evicted The node was low on resource: memory", "short of something"),
    ),
    "a Pod of which nothing is said": Case(
        make_pod("Pending"), ("phase Pending, nothing else is said",)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_pod_that_is_not_well_is_explained(case: Case) -> None:
    [finding] = find_unwell([case.pod], case.events)
    said = str(finding)
    assert said.startswith("Pod one\n")
    for want in case.want_says:
        assert want in said
    assert "of another" not in said
    assert finding.is_previous == case.want_previous


@pytest.mark.parametrize(
    "pod",
    [
        make_pod("Succeeded", make_container({"terminated": {"exitCode": 0}})),
        make_pod("Running", {"name": "main", "ready": True, "state": {"running": {}}}),
    ],
    ids=["ended well", "runs and is ready"],
)
def test_a_pod_that_is_well_is_not_mentioned(pod: dict[str, object]) -> None:
    assert find_unwell([pod], [make_event("Unhealthy", "once, at the start")]) == []


def test_every_advice_is_one_line() -> None:
    assert all(advice and "\n" not in advice for advice in ADVICE.values())
