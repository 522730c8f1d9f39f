"""Every way to Ray in an installed release, and a reinstall that finds its storage, in order."""

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
SLEEPER = "python -c \"print('here', flush=True); import time; time.sleep(300)\""


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


def test_rays_sdk_does_all_it_can_do_with_a_job(bundle: Bundle, dashboard: Dashboard) -> None:
    with bundle.times.measure("the same with Ray's SDK"):
        done = dashboard.run([sys.executable, "tests/e2e/sdk_job.py"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "status RUNNING",
        "logs sdk was here",
        "listed True",
        "stopped True",
        "status STOPPED",
        "deleted True",
        "listed False",
    ]


def test_rays_rest_interface_does_all_it_can_do_with_a_job(
    bundle: Bundle, dashboard: Dashboard
) -> None:
    job = "/api/jobs/by-rest"

    def read(path: str) -> dict[str, object]:
        answer = dashboard.ask("GET", path)
        assert answer.status == 200, answer.body
        content: dict[str, object] = json.loads(answer.body)
        return content

    def listed() -> list[str]:
        return [
            entry["submission_id"] for entry in json.loads(dashboard.ask("GET", "/api/jobs/").body)
        ]

    def is_gone() -> bool:
        if "by-rest" not in listed() and dashboard.ask("GET", job).status == 404:
            return True
        dashboard.ask("DELETE", job)
        return False

    with bundle.times.measure("the same with Ray's REST interface"):
        wanted = {"entrypoint": SLEEPER, "submission_id": "by-rest"}
        assert dashboard.ask("POST", "/api/jobs/", body=wanted).status == 200
        assert wait_for(lambda: "here" in str(read(f"{job}/logs")["logs"]).splitlines())
        assert read(job)["status"] == "RUNNING"
        assert "by-rest" in listed()
        assert dashboard.ask("POST", f"{job}/stop").status == 200
        assert wait_for(lambda: read(job)["status"] == "STOPPED")
        assert dashboard.ask("DELETE", job).status == 200
        # Who looks after the job in Ray may see its end only now, and writes it down once more.
        assert wait_for(is_gone, pause_seconds=1.0)


@pytest.mark.parametrize("release", [RELEASE, "other"])
def test_a_release_of_any_name_finds_the_storage_again(bundle: Bundle, release: str) -> None:
    bundle.uninstall(RELEASE)
    name = release if RELEASE in release else f"{release}-{RELEASE}"
    with bundle.times.measure(f"reinstalled as {release}, and found its runs"):
        bundle.install(release)
        bundle.wait_for_ray(name)
        with bundle.dashboard(name) as dashboard:
            again = dashboard.run([BIN / "trainshed", "submit", MANIFEST])
        assert again.returncode == 0, again.stdout + again.stderr
        assert "is finished: --fresh trains it again" in again.stdout + again.stderr
        bundle.uninstall(release)
    claim = json.loads(bundle.kubectl("get", "pvc", "trainshed-storage", "-ojson"))
    assert claim["status"]["phase"] == "Bound"
