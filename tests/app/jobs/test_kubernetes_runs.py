"""`ps`, `logs` and `stop` of runs in Kubernetes, with a kubectl that a test scripts."""

from pathlib import Path

import pytest

from tests.app.cli_here import trainshed_here
from tests.app.jobs.kubectl_stand_in import write_kubectl
from trainshed_api.names import EXIT_INVALID


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return write_kubectl(tmp_path, monkeypatch)


def test_runs_of_a_namespace_are_listed(world: Path) -> None:
    said = trainshed_here("ps", "-n", "team", "--context", "prod")
    assert said.stdout.splitlines() == [
        "digits  attempt 2  Running, step 5 of 10, loss 0.5",
        "moth    attempt 2  Queued, step 5 of 10, loss 0.5",
    ]
    assert (world / "asked").read_text() == "--context prod -n team get trainingrun -o json\n"


def test_the_log_is_that_of_the_last_attempts_driver(world: Path) -> None:
    said = trainshed_here("logs", "digits", "-n", "team")
    assert said.stdout == "first\nlast\n"
    last = (world / "asked").read_text().splitlines()[-1]
    assert last.startswith("-n team exec pod/shared-head -- tail -n +1 ")
    assert last.endswith("/job-driver-digits-12345678-2.log")


def test_a_log_whose_head_is_gone_is_in_storage(world: Path) -> None:
    (world / "pods").write_text("")
    said = trainshed_here("logs", "digits", "-n", "team")
    assert (said.code, said.stdout) == (EXIT_INVALID, "")
    assert "the Ray head of digits is gone. Its logs are in storage" in said.stderr


def test_a_run_is_stopped_by_suspending_it(world: Path) -> None:
    said = trainshed_here("stop", "digits", "-n", "team")
    assert said.stdout.startswith("digits Suspended, step 5 of 10")
    patch = (world / "asked").read_text().splitlines()[0]
    assert patch == '-n team patch trainingrun digits --type merge -p {"spec": {"suspend": true}}'
