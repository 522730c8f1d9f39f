"""Commands of users against an installed release: `trainshed submit`, and Ray's own."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bundle import MANIFEST, RELEASE, Bundle, Dashboard
from tests.e2e.running import wait_for

# A step waits for Pods, and the first one for images.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
BIN = Path(sys.executable).parent


@pytest.fixture
def dashboard(installed: Bundle) -> Iterator[Dashboard]:
    """The dashboard of the installed release behind a port-forward."""
    with installed.dashboard(RELEASE) as forwarded:
        yield forwarded


def test_the_quick_start_trains_and_the_second_time_says_why_not(
    bundle: Bundle, dashboard: Dashboard
) -> None:
    submit: list[str | Path] = [BIN / "trainshed", "submit", MANIFEST]
    with bundle.times.measure("trainshed submit manifests/trainingrun.yaml, followed to its end"):
        first = dashboard.run(submit)
    assert first.returncode == 0, first.stdout + first.stderr
    with bundle.times.measure("the same again"):
        second = dashboard.run(submit)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "is finished: --fresh trains it again" in second.stdout + second.stderr


def test_the_dashboard_lists_the_run(dashboard: Dashboard) -> None:
    answer = dashboard.ask("GET", "/api/train/v2/runs/v1")
    assert answer.status == 200
    runs = json.loads(answer.body)["train_runs"]
    assert [run["status"] for run in runs] == ["FINISHED"]


def test_rays_command_line_does_all_it_can_do_with_a_job(
    bundle: Bundle, dashboard: Dashboard
) -> None:
    def job(verb: str, *arguments: str) -> str:
        done = dashboard.run([BIN / "ray", "job", verb, *arguments])
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    with bundle.times.measure("ray job submit, status, logs, stop, list, delete"):
        options = ("--no-wait", "--submission-id=by-cli", "--")
        job(
            "submit",
            *options,
            "python",
            "-c",
            "import time; print('here', flush=True); time.sleep(300)",
        )
        assert wait_for(lambda: "here" in job("logs", "by-cli").splitlines())
        assert "RUNNING" in job("status", "by-cli")
        assert "by-cli" in job("list")
        job("stop", "by-cli")
        assert "was stopped" in job("status", "by-cli")
        job("delete", "by-cli")
        assert "by-cli" not in job("list")


def test_a_script_of_ray_train_trains_by_rays_command_line(
    bundle: Bundle, dashboard: Dashboard
) -> None:
    script = ["python", "train_ray_ddp_with_ray_data.py", "--num-workers", "2"]
    with bundle.times.measure("ray job submit of a script of Ray Train, to its end"):
        done = dashboard.run(
            [BIN / "ray", "job", "submit", "--working-dir", "examples", "--", *script]
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "'epoch': 3" in done.stdout
    assert "/ray/digits-ddp-ray-data/checkpoint_" in done.stdout
