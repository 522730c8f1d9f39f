"""`kubectl apply -f trainingrun.yaml` on a real node: trains, is seen, survives, says why not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.running import ROOT, wait_for
from tests.e2e.runs import CODE, STEPS_IN_EPOCH, USER_CODE, Runs, make_counting, make_run, notes_of
from trainshed_api.names import SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

    from tests.e2e.bundle import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
RELEASE = "trainshed"
BIN = Path(sys.executable).parent
MANIFEST = ROOT / "manifests" / "trainingrun.yaml"
SECONDS_PER_STEP = 0.3


@pytest.fixture(scope="module")
def runs(bundle: Bundle) -> Iterator[Runs]:
    """The chart installed, with the digits and the user's code on its storage."""
    with bundle.times.measure("helm install for TrainingRuns"):
        bundle.install(RELEASE)
        bundle.wait_for_ray(RELEASE)
        bundle.wait_for_digits()
    made = Runs(bundle, RELEASE)
    made.give_code(USER_CODE, USER_CODE.glob("*.py"))
    yield made
    bundle.kubectl("delete", "trun", "--all", "--timeout=3m")
    bundle.helm("uninstall", RELEASE, "--wait", "--timeout=5m")


def test_the_quick_start_is_applied_and_trains_again_after_a_delete(runs: Runs) -> None:
    ids = []
    for time_ in ("the first time", "again after a delete"):
        with runs.bundle.times.measure(f"kubectl apply until Complete, {time_}"):
            runs.bundle.kubectl("apply", "-f", str(MANIFEST))
            runs.wait_for("Complete", "digits")
        status = runs.status("digits")
        result = runs.result("digits")
        assert result.outcome == SUCCEEDED
        assert (result.metrics["valid.accuracy"] or 0) >= 0.95
        assert status.progress
        assert status.progress.step == status.progress.steps
        assert status.result
        assert "<html" in runs.read(status.result.report)[:200]
        assert [attempt.outcome for attempt in status.attempts] == ["Succeeded"]
        assert status.attempts[0].time.training > 0
        ids.append(status.attempts[0].job_id)
        with runs.bundle.dashboard(RELEASE) as dashboard:
            jobs = json.loads(dashboard.ask("GET", "/api/jobs/").body)
        assert {job["submission_id"]: job["status"] for job in jobs}[ids[-1]] == "SUCCEEDED"
        runs.bundle.kubectl("delete", "trun", "digits", "--timeout=2m")
    assert ids[0] != ids[1]


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


def test_progress_is_seen_while_it_trains(runs: Runs) -> None:
    run = make_counting("slow", epochs=12, seconds_per_step=0.25, checkpoint={"everyEpochs": 4})
    with runs.bundle.times.measure("a run of a minute, watched"):
        runs.apply(run)
        with runs.watch("slow") as watch:
            runs.wait_for("Complete", "slow")
            wait_for(lambda: bool(watch.steps()) and watch.steps()[-1][1] == 12 * STEPS_IN_EPOCH, 5)
    steps = watch.steps()
    values = [step for _, step in steps]
    assert len(values) >= 4
    assert values == sorted(set(values))
    first_step = float(runs.read(f"{notes_of('slow')}/first-step"))
    assert steps[0][0] - first_step <= 3, steps
    assert values[-1] == runs.result("slow").step == 12 * STEPS_IN_EPOCH


def test_an_upgrade_and_its_rollback_leave_a_run_alone(runs: Runs) -> None:
    runs.apply(make_counting("steady", epochs=6, seconds_per_step=SECONDS_PER_STEP))
    runs.wait_for_step("steady", 10)
    before = runs.status("steady")
    bundle = runs.bundle
    more = ("--reuse-values", "--set=groups.cpu.replicas=2", "--wait", "--timeout=5m")
    bundle.helm("upgrade", RELEASE, str(bundle.chart), *more)
    during = runs.status("steady")
    bundle.helm("rollback", RELEASE, "1", "--wait", "--timeout=5m")
    runs.wait_for("Complete", "steady")
    after = runs.status("steady")
    assert [attempt.outcome for attempt in after.attempts] == ["Succeeded"]
    for status in (during, after):
        assert status.attempts[0].job_id == before.attempts[0].job_id
        assert status.start_time == before.start_time
        assert set(before.model_dump(exclude_none=True)) <= set(
            status.model_dump(exclude_none=True)
        )


def test_losses_are_the_same_wherever_it_trains(runs: Runs, tmp_path: Path) -> None:
    shutil.copytree(USER_CODE, tmp_path / "user_code")
    home = {**os.environ, "TRAINSHED_HOME": str(tmp_path / "home")}
    trainshed = BIN / "trainshed"
    subprocess.run([trainshed, "data", "digits", "--to", tmp_path / "home"], env=home, check=True)
    places = {
        "laptop": str(tmp_path / "laptop"),
        "submitted": notes_of("submitted"),
        "applied": notes_of("applied"),
    }
    file = tmp_path / "equal.yaml"
    file.write_text(json.dumps(make_equal("user_code", places["laptop"])), encoding="utf-8")

    with runs.bundle.times.measure("trainshed run, submit and kubectl apply of one file"):
        subprocess.run([trainshed, "run", file], env=home, check=True, timeout=600)
        with runs.bundle.dashboard(RELEASE) as dashboard:
            notes = f"spec.config.notes={places['submitted']}"
            sent = dashboard.run([trainshed, "submit", file, "--set", notes])
        assert sent.returncode == 0, sent.stdout + sent.stderr
        runs.apply(make_equal(f"file://{CODE}", places["applied"]))
        runs.wait_for("Complete", "equal")

    for rank in (0, 1):
        name = f"losses-{rank}"
        laptop = (tmp_path / "laptop" / name).read_text(encoding="ascii")
        assert len(laptop.splitlines()) >= 20
        assert runs.read(f"{places['submitted']}/{name}") == laptop
        assert runs.read(f"{places['applied']}/{name}") == laptop


def make_equal(code: str, notes: str) -> dict[str, JsonValue]:
    """Return a run that writes each loss into the folder `notes`."""
    decode: JsonValue = {
        "use": "trainshed.transforms:decode_image",
        "options": {"size": 8, "mode": "L"},
    }
    read: JsonValue = {"format": "parquet", "path": "digits/train", "columns": ["image", "label"]}
    train: JsonValue = {
        "read": read,
        "transforms": [decode],
        "shuffle": {"mode": "local", "bufferSize": 500},
    }
    spec: dict[str, JsonValue] = {
        "train": "losses:train",
        "code": {"workingDir": code},
        "config": {"notes": notes},
        "epochs": 1,
        "batchSize": 64,
        "reproducible": True,
        "data": {"cpus": 1, "datasets": {"train": train}},
        "workers": {"count": 2, "resources": {"cpu": 1}},
    }
    return make_run("equal", spec)


def kill_head_pod(runs: Runs) -> None:
    now = ("--grace-period=0", "--force", "--wait=false")
    runs.bundle.kubectl("delete", "pod", runs.head(), *now)


def kill_head_container(runs: Runs) -> None:
    """Kill Ray's control service: the head's only container ends with it."""
    script = (
        "import os, signal, pathlib\n"
        "for entry in pathlib.Path('/proc').glob('[0-9]*'):\n"
        "    if b'gcs_server' in (entry / 'cmdline').read_bytes().split(b'\\0')[0]:\n"
        "        os.kill(int(entry.name), signal.SIGKILL)\n"
    )
    runs.in_head("python", "-c", script)


def delete_cluster(runs: Runs) -> None:
    runs.bundle.kubectl("delete", "raycluster", RELEASE, "--wait=false")


# How, and epochs of the run: a deleted cluster has half a minute to end, and must not be done then.
LOSSES = {
    "head Pod killed": (kill_head_pod, 3),
    "head container killed": (kill_head_container, 3),
    "RayCluster deleted": (delete_cluster, 10),
}


@pytest.mark.parametrize("controller", ["up", "away"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_outlives_its_cluster(runs: Runs, loss: str, controller: str) -> None:
    name = f"{loss.lower().replace(' ', '-')}-{controller}"
    lose, epochs = LOSSES[loss]
    runs.apply(make_counting(name, epochs=epochs, seconds_per_step=SECONDS_PER_STEP))
    runs.wait_for_step(name, 10)
    if controller == "away":
        runs.scale_controller(0)
    with runs.bundle.times.measure(f"{loss}, controller {controller}, until Complete"):
        lose(runs)
        if loss == "RayCluster deleted":
            gone = ("raycluster", "--for=delete", RELEASE, "--timeout=3m")
            runs.bundle.kubectl("wait", *gone)
            runs.bundle.helm("upgrade", RELEASE, str(runs.bundle.chart), "--reuse-values")
        runs.bundle.wait_for_ray(RELEASE)
        if controller == "away":
            runs.scale_controller(1)
        runs.wait_for("Complete", name)
    status = runs.status(name)
    first, *others = status.attempts
    assert first.outcome == "Infrastructure"
    assert others[-1].outcome == "Succeeded"
    assert others[-1].resumed_from
    assert (others[-1].resumed_from.step or 0) >= 10
    assert runs.result(name).step == epochs * STEPS_IN_EPOCH
    assert runs.claims(name) == ["1", str(status.attempt)], "one driver an attempt"


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
    assert attempt.end_time.timestamp() - ended_at(runs, attempt.job_id) <= 5


def test_an_exception_is_told_with_the_user_s_own_traceback(runs: Runs) -> None:
    runs.apply(make_counting("raises", epochs=1, seconds_per_step=0.1, fails_at=10))
    with runs.bundle.times.measure("an exception in step 10, apply until Failed"):
        runs.wait_for("Failed", "raises")
    failed = runs.status("raises").condition("Failed")
    assert failed
    raised = float(runs.read(f"{notes_of('raises')}/raised"))
    assert failed.last_transition_time.timestamp() - raised <= 5
    said = runs.bundle.kubectl("describe", "trun", "raises")
    assert "ValueError: no such colour: green" in said
    assert "counting.py" in said
    assert "trainshed/runtime" not in said
    listed = runs.bundle.kubectl("get", "trun", "raises")
    assert "Failed" in listed


def test_more_gpus_than_there_are_is_said_at_once(runs: Runs) -> None:
    runs.apply(
        make_counting(
            "greedy",
            epochs=1,
            seconds_per_step=0,
            workers={"count": 8, "resources": {"cpu": 1, "gpu": 1}},
        )
    )

    def is_said() -> bool:
        condition = runs.status("greedy").condition("Admitted")
        return condition is not None and condition.reason == "ExceedsCluster"

    assert wait_for(is_said, 5), runs.status("greedy").model_dump_json(indent=1)
    assert "8 GPUs" in runs.bundle.kubectl("describe", "trun", "greedy")
    assert "Queued" in runs.bundle.kubectl("get", "trun", "greedy")
    runs.bundle.kubectl("delete", "trun", "greedy")


def ended_at(runs: Runs, job_id: str) -> float:
    """Return when the driver of a job ended, in seconds since 1970, as Ray knows it."""
    with runs.bundle.dashboard(RELEASE) as dashboard:
        job = json.loads(dashboard.ask("GET", f"/api/jobs/{job_id}").body)
    milliseconds = job["end_time"]
    assert isinstance(milliseconds, int)
    return milliseconds / 1000
