"""TrainingRuns on a real node beyond the core: how they are seen, what they compute, survive."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bundle import RELEASE
from tests.e2e.running import wait_for
from tests.e2e.runs import CODE, STEPS_IN_EPOCH, USER_CODE, Runs, make_counting, make_run, notes_of

if TYPE_CHECKING:
    from pydantic import JsonValue

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
BIN = Path(sys.executable).parent
SECONDS_PER_STEP = 0.3


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
    runs.kill_pod(runs.head())


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
CONTROLLERS = ("up", "away")
IN_CORE = {("head Pod killed", "up")}


@pytest.mark.parametrize(("loss", "controller"), sorted({*product(LOSSES, CONTROLLERS)} - IN_CORE))
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
