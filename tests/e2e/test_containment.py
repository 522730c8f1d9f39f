"""Whatever one run, one object or one absence does: the run beside it trains and ends in time."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from hack.cluster.bare import BareCluster
from hack.cluster.failure import ClusterError
from tests.e2e.running import NAME, wait_for
from tests.e2e.runs import ON_GPU_GROUP, Runs, make_counting, make_run
from trainshed_api.names import ENV_PROGRESS_TOKEN, ENV_PROGRESS_URL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import JsonValue

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("enforced_policies"),
]
SECONDS_PER_STEP = 0.3
# A word of the controller comes no later than this after what it is about.
MOST_SECONDS_LATE = 10.0
STALL_SECONDS = 30
NUM_LARGE = 15
LARGE: JsonValue = {"x": [0] * 650_000}
BROWN_OUT_SECONDS = 60
NUM_UNHEARD = 50
SILENT_DASHBOARD = (Path(__file__).parent / "silent_dashboard.py").read_text(encoding="utf-8")
# Of the CPUs that three such runs share.
FEW_LABELS: JsonValue = {
    "cpus": 1,
    "datasets": {
        "train": {"read": {"format": "parquet", "path": "digits/train", "columns": ["label"]}}
    },
}
_POST = """
import os, sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], sys.stdin.read().encode(), method="POST")
request.add_header("Authorization", f"Bearer {sys.argv[2]}")
try:
    print(urllib.request.urlopen(request, timeout=30).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""

_SAY_MUCH_AND_KILL_THE_DRIVER = """
import os, signal, sys
for _ in range(2000):
    sys.stdout.write(("x" * 99 + "\\n") * 1000)
sys.stdout.flush()
os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def nobody_else(runs: Runs) -> None:
    """No run is left by the test before: it would have the room of this one's."""
    runs.forget_all()


@contextmanager
def healthy_run(runs: Runs, name: str, *, epochs: int = 12) -> Iterator[None]:
    """A run that trains all the while, and is asserted to have ended by itself and in time."""
    workers = ON_GPU_GROUP
    runs.apply(
        make_counting(
            name,
            epochs=epochs,
            seconds_per_step=SECONDS_PER_STEP,
            workers=workers,
            stallDeadlineSeconds=STALL_SECONDS,
        )
    )
    runs.wait_for_step(name, 10)
    yield
    runs.wait_for("Complete", name, minutes=10)
    status = runs.status(name)
    assert [attempt.outcome for attempt in status.attempts] == ["Succeeded"]
    assert runs.starts(name) == [0], "its worker was left alone"
    assert status.completion_time
    late = status.completion_time.timestamp() - ended_at(runs, status.attempts[0].job_id)
    assert late <= MOST_SECONDS_LATE
    assert controller_restarts(runs) == 0


def ended_at(runs: Runs, job_id: str) -> float:
    """Return when the driver of a job ended, in seconds since 1970, as Ray knows it."""
    with runs.bundle.dashboard(runs.release) as dashboard:
        job = json.loads(dashboard.ask("GET", f"/api/jobs/{job_id}").body)
    return float(job["end_time"]) / 1000


def controller_restarts(runs: Runs) -> int:
    """Return how often the controller's container ended."""
    label = "-lapp.kubernetes.io/component=controller"
    path = "-ojsonpath={.items[0].status.containerStatuses[0].restartCount}"
    return int(runs.bundle.kubectl("get", "pod", label, path))


def post_as_its_driver(runs: Runs, name: str, body: str) -> int:
    """Return what the controller answers to a text from the driver of a run's first attempt."""
    job = json.loads(runs.bundle.kubectl("get", "rayjob", f"{name}-1", "-ojson"))
    told = yaml.safe_load(job["spec"]["runtimeEnvYAML"])["env_vars"]
    call = ("python", "-c", _POST, told[ENV_PROGRESS_URL], told[ENV_PROGRESS_TOKEN])
    return int(runs.in_head(*call, stdin=body))


def tell_of_the_year_10e292(runs: Runs) -> None:
    for moment in ("1e300", "NaN", "-1e300"):
        body = f'{{"attempt": 1, "time": {moment}, "state": "Training"}}'
        assert post_as_its_driver(runs, "beside-words", body) == 422


def ask_for_infinite_memory(runs: Runs) -> None:
    workers: JsonValue = {"count": 1, "resources": {"cpu": 1, "memory": "1e309"}}
    with pytest.raises(ClusterError, match="memory"):
        runs.apply(make_counting("infinite", epochs=1, seconds_per_step=0, workers=workers))


def make_a_cluster_of_unknown_size(runs: Runs) -> None:
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "ray-head"}]}}}
    group = {
        "groupName": "odd",
        "replicas": 0,
        "minReplicas": 0,
        "maxReplicas": 1,
        "rayStartParams": {"num-cpus": "$MY_CPU"},
        "template": {"spec": {"containers": [{"name": "ray-worker"}]}},
    }
    spec = {"suspend": True, "headGroupSpec": head, "workerGroupSpecs": [group]}
    odd = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "odd"},
        "spec": spec,
    }
    runs.bundle.kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(odd))


def nest_without_bottom(runs: Runs) -> None:
    text = json.dumps(make_counting("deep", epochs=1, seconds_per_step=0, config="BOTTOM"))
    deep = text.replace('"BOTTOM"', '{"a":' * 1_500 + "{}" + "}" * 1_500)
    runs.bundle.kubectl("create", "--validate=false", "-f", "-", stdin=deep)
    runs.wait_for("Failed", "deep")


# What is done beside a healthy run; what is left of it is removed by its name.
HARMS: dict[str, Callable[[Runs], None]] = {
    "words": tell_of_the_year_10e292,
    "memory": ask_for_infinite_memory,
    "cluster": make_a_cluster_of_unknown_size,
    "depth": nest_without_bottom,
}


@pytest.mark.parametrize("harm", HARMS)
def test_one_object_or_driver_harms_no_other_run(runs: Runs, harm: str) -> None:
    name = f"beside-{harm}"
    with healthy_run(runs, name, epochs=6):
        HARMS[harm](runs)
    runs.bundle.kubectl("delete", "raycluster", "odd", "--ignore-not-found", "--wait=false")


def test_a_driver_that_prints_200_megabytes_and_dies_without_a_word(runs: Runs) -> None:
    talkative = make_run(
        "talkative",
        {
            "entrypoint": ["python", "-c", _SAY_MUCH_AND_KILL_THE_DRIVER],
            "workers": {"count": 1, "resources": {"cpu": 1}},
            "failurePolicy": {"maxApplicationFailures": 0, "maxInfrastructureFailures": 0},
        },
    )
    with healthy_run(runs, "beside-log"):
        runs.apply(talkative)
        runs.wait_for("Failed", "talkative")


def test_fifteen_objects_of_a_megabyte_each(runs: Runs) -> None:
    with healthy_run(runs, "beside-large", epochs=25):
        for number in range(NUM_LARGE):
            large = make_counting(f"large-{number}", epochs=1, seconds_per_step=0, config=LARGE)
            runs.bundle.kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(large))
        for number in range(NUM_LARGE):
            runs.wait_for("Failed", f"large-{number}", minutes=10)
        failed = runs.status("large-0").condition("Failed")
        assert failed
        assert "96 KiB" in failed.message


def test_a_controller_that_is_away_longer_than_the_stall_deadline(runs: Runs) -> None:
    names = ("away-0", "away-1", "away-2")
    for name in names:
        runs.apply(
            make_counting(
                name,
                epochs=30,
                seconds_per_step=SECONDS_PER_STEP,
                workers={"count": 1, "resources": {"cpu": "250m"}},
                data=FEW_LABELS,
                stallDeadlineSeconds=STALL_SECONDS,
            )
        )
    for name in names:
        runs.wait_for_step(name, 10)
    runs.scale_controller(0)
    away_until = time.monotonic() + STALL_SECONDS + 15
    assert wait_for(lambda: time.monotonic() >= away_until, 2 * STALL_SECONDS)
    runs.scale_controller(1)
    for name in names:
        runs.wait_for("Complete", name, minutes=10)
        status = runs.status(name)
        assert [attempt.outcome for attempt in status.attempts] == ["Succeeded"]
        assert runs.starts(name) == [0]


def test_a_rayjob_that_a_quota_refuses_is_told_and_may_be_suspended(runs: Runs) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "full"},
        "spec": {"hard": {"count/rayjobs.ray.io": "0"}},
    }
    with healthy_run(runs, "beside-quota"):
        runs.bundle.kubectl("create", "-f", "-", stdin=json.dumps(quota))
        try:
            runs.apply(make_counting("refused", epochs=1, seconds_per_step=0))

            def has_row_counts() -> bool:
                said = runs.status("refused").condition("Progressing")
                return said is not None and said.reason == "RayJobRefused"

            assert wait_for(has_row_counts), runs.status("refused").model_dump_json(indent=1)
            assert "exceeded quota" in runs.bundle.kubectl("describe", "trun", "refused")
            runs.patch("refused", suspend=True)
            runs.wait_for("Suspended", "refused")
        finally:
            runs.bundle.kubectl("delete", "resourcequota", "full")
        runs.patch("refused", suspend=False)
        runs.wait_for("Complete", "refused")


def test_a_brown_out_of_the_api_server_is_sat_out(runs: Runs) -> None:
    controller = runs.bundle.controller_address()
    with healthy_run(runs, "beside-brown-out", epochs=20):
        # Before addresses are rewritten, and whatever is established already.
        drop = (
            "PREROUTING",
            "-s",
            controller,
            "-p",
            "tcp",
            "-m",
            "multiport",
            "--dports",
            "443,6443",
        )
        on_the_node(runs, "iptables", "-t", "raw", "-I", *drop, "-j", "DROP")
        try:
            until = time.monotonic() + BROWN_OUT_SECONDS
            assert wait_for(lambda: time.monotonic() >= until, 2 * BROWN_OUT_SECONDS)
        finally:
            on_the_node(runs, "iptables", "-t", "raw", "-D", *drop, "-j", "DROP")


def test_a_head_that_falls_silent_under_fifty_runs(runs: Runs) -> None:
    with cluster_with_dashboard(runs, "silent"):
        names = [f"unheard-{number}" for number in range(NUM_UNHEARD)]
        runs.apply({"apiVersion": "v1", "kind": "List", "items": [on_silent(n) for n in names]})
        assert wait_for(lambda: num_running(runs) == NUM_UNHEARD, 300), num_running(runs)
        in_head = ("exec", runs.bundle.ready_pod("headgroup", "silent"), "-c", "dashboard", "--")
        with healthy_run(runs, "beside-silent", epochs=25):
            runs.bundle.kubectl(*in_head, "touch", "/tmp/silent")
            # One more, which nobody answers from the beginning.
            runs.apply(on_silent("unheard-last"))
        assert all(runs.status(name).completion_time is None for name in names)
        runs.bundle.kubectl(*in_head, "rm", "/tmp/silent")
        runs.forget_all()


def on_silent(name: str) -> dict[str, JsonValue]:
    """Return a run on the cluster whose dashboard is the test's."""
    workers: JsonValue = {"count": 1, "resources": {"cpu": 1}, "group": "cpu"}
    cluster: JsonValue = {"shared": "silent"}
    return make_counting(name, epochs=1, seconds_per_step=0, workers=workers, cluster=cluster)


def num_running(runs: Runs) -> int:
    """Return how many RayJobs run, as far as Ray says."""
    listed = json.loads(runs.bundle.kubectl("get", "rayjob", "-ojson"))["items"]
    return sum(job.get("status", {}).get("jobStatus") == "RUNNING" for job in listed)


@contextmanager
def cluster_with_dashboard(runs: Runs, name: str) -> Iterator[None]:
    """Make a RayCluster like the release's, with room for all, whose dashboard is the test's."""
    made = json.loads(runs.bundle.kubectl("get", "raycluster", runs.release, "-ojson"))
    made["metadata"] = {"name": name}
    head = made["spec"]["headGroupSpec"]
    head["rayStartParams"] |= {"dashboard-host": "127.0.0.1", "dashboard-port": "8299"}
    containers = head["template"]["spec"]["containers"]
    containers.append(
        {
            "name": "dashboard",
            "command": ["python", "-c", SILENT_DASHBOARD],
            **{key: containers[0][key] for key in ("image", "securityContext", "volumeMounts")},
        }
    )
    (group,) = [g for g in made["spec"]["workerGroupSpecs"] if g["groupName"] == "cpu"]
    group["rayStartParams"]["num-cpus"] = str(4 * NUM_UNHEARD)
    made["spec"]["workerGroupSpecs"] = [group]
    runs.bundle.kubectl("create", "-f", "-", stdin=json.dumps(made))
    try:
        runs.bundle.wait_for_ray(name)
        yield
    finally:
        # What stays would keep the release from being uninstalled.
        runs.bundle.kubectl("delete", "raycluster", name, "--timeout=3m")


def on_the_node(runs: Runs, *command: str) -> None:
    """Run a command where the node's network is."""
    cluster = runs.bundle.cluster
    inside = ("docker", "exec", f"{NAME}-control-plane")
    prefix = cluster.prefix if isinstance(cluster.cluster, BareCluster) else inside
    subprocess.run([*prefix, *command], check=True, timeout=60)
