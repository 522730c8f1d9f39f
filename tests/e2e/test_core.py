"""What every change has to pass on a node: one installation, from its first Pod to its last.

NetworkPolicies count all the time. Installation comes first and the end of it last; in between the
order does not matter.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.bundle import MANIFEST, RELEASE, uses_real_operator
from tests.e2e.pods import make_pod
from tests.e2e.reach import Place
from tests.e2e.running import wait_for
from tests.e2e.runs import ON_GPU_GROUP, STEPS_IN_EPOCH, Runs, make_counting, notes_of
from trainshed_api.names import SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

    from tests.e2e.bundle import Bundle
    from trainshed_api.status import TrainingRunStatus

# The first test waits for the node and for the images on it.
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.core,
    pytest.mark.timeout(1200),
    pytest.mark.usefixtures("enforced_policies"),
]
SECONDS_PER_STEP = 0.3
# The controller is told of an end by the driver, and else by what it looks at every five minutes;
# on an idle machine a second or two are between the end and the word of it.
MOST_SECONDS_UNTIL_TOLD = 60
# What stays of a namespace with nothing in it.
ALWAYS_THERE = {"configmap/kube-root-ca.crt", "serviceaccount/default"}


def test_the_install_brings_its_groups_and_the_digits_and_passes_its_own_test(
    installed: Bundle,
) -> None:
    groups = ("headgroup", "gpu", "cpu")
    assert {group: len(installed.ready_pods(group)) for group in groups} == dict.fromkeys(groups, 1)
    worker = installed.ready_pod("gpu")
    limits = "-ojsonpath={.spec.containers[0].resources.limits['nvidia\\.com/gpu']}"
    assert installed.kubectl("get", "pod", worker, limits) == "1"
    with installed.times.measure("helm test"):
        said = installed.helm("test", RELEASE, "--timeout=5m")
    assert "Succeeded" in said


def test_without_the_token_the_dashboard_is_closed(installed: Bundle) -> None:
    jobs = "/api/jobs/"
    with installed.dashboard(RELEASE) as dashboard:
        assert dashboard.ask("GET", jobs, token="").status == 401
        assert dashboard.ask("GET", jobs, token="0" * 64).status == 403
        assert dashboard.ask("GET", jobs).status == 200


@pytest.fixture(scope="module")
def first_digits(runs: Runs) -> TrainingRunStatus:
    """The status of the quick start, applied and complete."""
    with runs.bundle.times.measure("kubectl apply until Complete"):
        runs.bundle.kubectl("apply", "-f", str(MANIFEST))
        runs.wait_for("Complete", "digits")
    return runs.status("digits")


def test_the_quick_start_is_applied_and_trains(runs: Runs, first_digits: TrainingRunStatus) -> None:
    check_digits(runs, first_digits)


def test_the_quick_start_trains_again_after_a_delete(
    runs: Runs, first_digits: TrainingRunStatus
) -> None:
    runs.bundle.kubectl("delete", "trun", "digits", "--timeout=2m")
    with runs.bundle.times.measure("kubectl apply until Complete, again after a delete"):
        runs.bundle.kubectl("apply", "-f", str(MANIFEST))
        runs.wait_for("Complete", "digits")
    again = runs.status("digits")
    check_digits(runs, again)
    assert again.attempts[0].job_id != first_digits.attempts[0].job_id


def check_digits(runs: Runs, status: TrainingRunStatus) -> None:
    """Assert that the quick start trained, once and well, and that all say so."""
    assert status.result
    result = runs.result("digits")
    assert result.outcome == SUCCEEDED
    assert (result.metrics["valid.accuracy"] or 0) >= 0.95
    assert status.progress
    assert status.progress.step == status.progress.steps
    assert "<html" in runs.read(status.result.report)[:200]
    (attempt,) = status.attempts
    assert attempt.outcome == "Succeeded"
    assert attempt.time.training > 0
    with runs.bundle.dashboard(RELEASE) as dashboard:
        jobs = json.loads(dashboard.ask("GET", "/api/jobs/").body)
    assert {job["submission_id"]: job["status"] for job in jobs}[attempt.job_id] == "SUCCEEDED"


def test_the_quick_start_may_have_a_cluster_of_its_own(runs: Runs) -> None:
    document = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    document["metadata"]["name"] = "own"
    document["spec"]["cluster"] = {"dedicated": {}}
    with runs.bundle.times.measure("the same on a cluster of its own"):
        runs.apply(document)
        runs.wait_for("Complete", "own")
    (attempt,) = runs.status("own").attempts
    assert (runs.result("own").metrics["valid.accuracy"] or 0) >= 0.95

    def is_gone() -> bool:
        return attempt.ray_cluster not in runs.bundle.kubectl("get", "raycluster", "-oname")

    assert wait_for(is_gone, 120)


def test_a_killed_worker_s_pod_is_replaced_within_the_attempt(runs: Runs) -> None:
    start_counting(runs, "worker-lost", epochs=5)
    worker = runs.bundle.ready_pod("gpu")
    with runs.bundle.times.measure("worker's Pod killed, until Complete"):
        runs.kill_pod(worker)
        runs.wait_for("Complete", "worker-lost")
    (attempt,) = runs.status("worker-lost").attempts
    assert attempt.outcome == "Succeeded"
    assert runs.claims("worker-lost") == ["1"], "one driver"
    begun, resumed = runs.starts("worker-lost")
    assert (begun, resumed >= 10) == (0, True), "from the last checkpoint"
    assert runs.result("worker-lost").step == 5 * STEPS_IN_EPOCH
    assert attempt.time.lost > 0
    assert worker not in runs.bundle.ready_pods("gpu")


def test_a_killed_head_s_pod_costs_an_attempt_and_the_next_one_resumes(runs: Runs) -> None:
    start_counting(runs, "head-lost", epochs=5)
    with runs.bundle.times.measure("head Pod killed, until Complete"):
        runs.kill_pod(runs.head())
        runs.wait_for("Complete", "head-lost")
    status = runs.status("head-lost")
    first, *others = status.attempts
    assert first.outcome == "Infrastructure"
    assert others[-1].outcome == "Succeeded"
    assert others[-1].resumed_from
    assert (others[-1].resumed_from.step or 0) >= 10
    assert runs.result("head-lost").step == 5 * STEPS_IN_EPOCH
    assert runs.claims("head-lost") == ["1", str(status.attempt)], "one driver an attempt"


def test_an_exception_is_told_with_the_user_s_own_traceback(runs: Runs) -> None:
    runs.apply(make_counting("raises", epochs=1, seconds_per_step=0.1, fails_at=10))
    with runs.bundle.times.measure("an exception in step 10, apply until Failed"):
        runs.wait_for("Failed", "raises")
    failed = runs.status("raises").condition("Failed")
    assert failed
    raised = float(runs.read(f"{notes_of('raises')}/raised"))
    assert failed.last_transition_time.timestamp() - raised <= MOST_SECONDS_UNTIL_TOLD
    said = runs.bundle.kubectl("describe", "trun", "raises")
    assert "ValueError: no such colour: green" in said
    assert "counting.py" in said
    assert "trainshed/worker" not in said
    listed = runs.bundle.kubectl("get", "trun", "raises")
    assert "Failed" in listed


def test_a_module_that_is_not_there_is_named(runs: Runs) -> None:
    runs.apply(make_counting("lost", epochs=1, seconds_per_step=0, train="no_such_module:train"))
    with runs.bundle.times.measure("a bad module, apply until Failed"):
        runs.wait_for("Failed", "lost")
    failed = runs.status("lost").condition("Failed")
    assert failed
    assert failed.reason == "Invalid"
    assert "no_such_module" in failed.message
    assert "no_such_module" in runs.bundle.kubectl("describe", "trun", "lost")
    (attempt,) = runs.status("lost").attempts
    assert attempt.end_time
    late = attempt.end_time.timestamp() - ended_at(runs, attempt.job_id)
    assert late <= MOST_SECONDS_UNTIL_TOLD


def ended_at(runs: Runs, job_id: str) -> float:
    """Return when the driver of a job ended, in seconds since 1970, as Ray knows it."""
    with runs.bundle.dashboard(RELEASE) as dashboard:
        job = json.loads(dashboard.ask("GET", f"/api/jobs/{job_id}").body)
    milliseconds = job["end_time"]
    assert isinstance(milliseconds, int)
    return milliseconds / 1000


def test_more_gpus_than_there_are_is_said_at_once(runs: Runs) -> None:
    too_many: JsonValue = {"count": 8, "resources": {"cpu": 1, "gpu": 1}}
    runs.apply(make_counting("greedy", epochs=1, seconds_per_step=0, workers=too_many))

    def is_said() -> bool:
        condition = runs.status("greedy").condition("Admitted")
        return condition is not None and condition.reason == "ExceedsCluster"

    assert wait_for(is_said, MOST_SECONDS_UNTIL_TOLD), runs.status("greedy").model_dump_json(
        indent=1
    )
    assert "8 GPUs" in runs.bundle.kubectl("describe", "trun", "greedy")
    assert "Queued" in runs.bundle.kubectl("get", "trun", "greedy")
    runs.bundle.kubectl("delete", "trun", "greedy")


def test_a_suspended_run_gives_up_its_place_and_goes_on_where_it_stopped(runs: Runs) -> None:
    start_counting(runs, "paused", epochs=5)
    with runs.bundle.times.measure("suspended until the place is free"):
        runs.patch("paused", suspend=True)
        runs.wait_for("Suspended", "paused")
        assert wait_for(lambda: "paused" not in runs.bundle.kubectl("get", "rayjob", "-oname"))
    stopped = runs.status("paused")
    assert stopped.checkpoint
    kept = stopped.checkpoint.step or 0
    # Times of a status are whole seconds: a shorter pause would be none.
    assert stopped.phase_time
    seen_from = stopped.phase_time.timestamp() + 2
    assert wait_for(lambda: time.time() >= seen_from)
    with runs.bundle.times.measure("resumed until Complete"):
        runs.patch("paused", suspend=False)
        runs.wait_for("Complete", "paused")
    status = runs.status("paused")
    first, second = status.attempts
    assert (first.outcome, second.outcome) == ("Stopped", "Succeeded")
    assert second.resumed_from
    assert second.resumed_from.step == kept >= 10
    assert runs.starts("paused") == [0, kept], "no step was trained twice"
    assert runs.claims("paused") == ["1", "2"], "one driver an attempt"
    assert runs.result("paused").step == 5 * STEPS_IN_EPOCH
    assert status.time.suspended > 0


@pytest.fixture
def strangers(runs: Runs, e2e_namespace: str) -> Iterator[list[Place]]:
    """A Pod beside the release that is not of it, and one that calls itself Ray's elsewhere."""
    bundle = runs.bundle
    worker = bundle.ready_pod("cpu")
    known = Place(bundle.cluster, bundle.namespace, worker)
    labels = {bundle.namespace: {}, e2e_namespace: known.labels()}
    waits = ("sleep", "infinity")
    for namespace, given in labels.items():
        pod = make_pod("stranger", image=known.image(), command=waits, labels=given)
        bundle.cluster.kubectl("--namespace", namespace, "create", "-f", "-", stdin=pod)
    for namespace in labels:
        ready = ("wait", "pod/stranger", "--for=condition=Ready", "--timeout=2m")
        bundle.cluster.kubectl("--namespace", namespace, *ready)
    yield [Place(bundle.cluster, namespace, "stranger") for namespace in labels]
    bundle.kubectl("delete", "pod", "stranger")


def test_policies_let_live_ray_speak_and_nobody_else(runs: Runs, strangers: list[Place]) -> None:
    bundle = runs.bundle
    start_counting(runs, "guarded", epochs=50, workers={"count": 2, "resources": {"cpu": 1}})
    groups = ("headgroup", "gpu", "cpu")
    ray = [Place(bundle.cluster, bundle.namespace, *bundle.ready_pods(group)) for group in groups]
    head = ray[0].address()
    controller = bundle.controller_address()
    service = ("get", "service", "kubernetes", "-ojsonpath={.spec.clusterIP}")
    api_server = f"{bundle.cluster.kubectl(*service)}:443"
    metrics = f"{controller}:8080"
    told = {f"{head}:6379", f"{head}:8265", f"{controller}:8081"}
    # Beside them, the ports that Ray and torch chose for this run.
    asked = {*told, api_server, metrics}.union(*(pod.listening() for pod in ray))

    for pod in ray:
        answered = pod.reached(asked)
        assert told < answered
        assert answered.isdisjoint({api_server, metrics})
    for pod in strangers:
        assert pod.reached(asked) == {api_server}, "its own network is fine, and all else closed"
    runs.bundle.kubectl("delete", "trun", "guarded")


def test_an_upgrade_and_its_rollback_leave_a_run_alone(runs: Runs) -> None:
    bundle = runs.bundle
    stay = bundle.ready_pods("headgroup") + bundle.ready_pods("gpu")
    start_counting(runs, "steady", epochs=12)
    before = runs.status("steady")
    more = ("--reuse-values", "--set=groups.cpu.replicas=2", "--wait", "--timeout=5m")
    with bundle.times.measure("helm upgrade to two workers of `cpu`"):
        bundle.helm("upgrade", RELEASE, str(bundle.chart), *more)
        assert wait_for(lambda: len(bundle.ready_pods("cpu")) == 2, 180)
    during = runs.status("steady")
    with bundle.times.measure("helm rollback to one"):
        bundle.helm("rollback", RELEASE, "1", "--wait", "--timeout=5m")
        assert wait_for(lambda: len(bundle.ready_pods("cpu")) == 1, 180)
    assert runs.status("steady").phase == "Running", "it outlived both, or nothing was shown"
    runs.wait_for("Complete", "steady")
    after = runs.status("steady")
    assert [attempt.outcome for attempt in after.attempts] == ["Succeeded"]
    assert runs.starts("steady") == [0], "its worker was left alone"
    assert wait_for(lambda: bundle.ready_pods("headgroup") + bundle.ready_pods("gpu") == stay)
    for status in (during, after):
        assert status.attempts[0].job_id == before.attempts[0].job_id
        assert status.start_time == before.start_time
        assert set(before.model_dump(exclude_none=True)) <= set(
            status.model_dump(exclude_none=True)
        )


def test_an_uninstall_stops_a_live_run_and_leaves_runs_storage_and_kinds(runs: Runs) -> None:
    bundle = runs.bundle
    start_counting(runs, "living", epochs=50)
    with bundle.times.measure("helm uninstall with a live run, until the last Pod is gone"):
        bundle.uninstall(RELEASE)
    status = runs.status("living")
    assert status.phase == "Suspended"
    assert [attempt.outcome for attempt in status.attempts] == ["Stopped"]
    assert status.checkpoint
    assert (status.checkpoint.step or 0) >= 10
    assert bundle.kubectl("get", "trun", "living", "-ojsonpath={.spec.suspend}") == "true"
    left = {"persistentvolumeclaim/trainshed-storage"}
    left.update(bundle.kubectl("get", "trun", "-oname").split())
    # A run on a cluster of its own has a policy until it is deleted.
    policies = bundle.kubectl("get", "networkpolicies", "-ltrainshed.dev/run", "-oname").split()
    assert [name.split("/")[1].rsplit("-", 1)[0] for name in policies] == ["own"]
    left.update(policies)
    if uses_real_operator():
        left.add("lease.coordination.k8s.io/ray-operator-leader")  # its own; no chart names it
    # What the Pods' owners owned goes a moment after them.
    assert wait_for(lambda: bundle.objects() - ALWAYS_THERE == left), bundle.objects() - left
    kinds = set(bundle.cluster.kubectl("get", "crds", "-oname").split())
    names = ("rayclusters.ray.io", "rayjobs.ray.io", "trainingruns.trainshed.dev")
    assert {f"customresourcedefinition.apiextensions.k8s.io/{name}" for name in names} <= kinds
    owned = ("clusterroles,clusterrolebindings", "-lapp.kubernetes.io/instance=trainshed", "-oname")
    assert bundle.cluster.kubectl("get", *owned) == ""


def start_counting(
    runs: Runs, name: str, *, epochs: int, workers: JsonValue = ON_GPU_GROUP
) -> None:
    """Start a run of slow steps, and wait for its first checkpoint."""
    run = make_counting(name, epochs=epochs, seconds_per_step=SECONDS_PER_STEP, workers=workers)
    runs.apply(run)
    runs.wait_for_step(name, 10)
