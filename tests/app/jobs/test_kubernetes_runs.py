"""`ps`, `logs` and `stop` of runs in Kubernetes, with a kubectl that a test scripts."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.app.cli_here import trainshed_here
from tests.app.jobs.kubectl_stand_in import make_object, write_kubectl
from trainshed.cli.main import cli
from trainshed_api.json_object import JsonObject, as_object
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
    assert "trainshed logs STORAGE/team/digits-12345678" in said.stderr


def test_a_status_of_another_release_does_not_hide_other_runs(world: Path) -> None:
    other = make_object("Running")
    as_object(other["status"])["attempt"] = "two"
    runs: JsonObject = {"items": [other, make_object("Queued", "moth")]}
    (world / "runs").write_text(json.dumps(runs))

    digits, moth = trainshed_here("ps", "-n", "team").stdout.splitlines()

    assert digits.startswith("digits  the status of a TrainingRun is of another release")
    assert moth == "moth    attempt 2  Queued, step 5 of 10, loss 0.5"
    lines = CliRunner().invoke(cli, ["ps", "-n", "team", "--output", "json"]).stdout.splitlines()
    bad, good = map(json.loads, lines)
    assert bad["error"].startswith("the status of a TrainingRun is of another release")
    assert (good["name"], good["status"]["phase"]) == ("moth", "Queued")


def test_the_last_lines_of_a_log_are_asked_of_the_cluster(world: Path) -> None:
    trainshed_here("logs", "digits", "-n", "team", "--tail", "3")
    assert " tail -n 3 /tmp" in (world / "asked").read_text()

    said = trainshed_here("logs", "digits", "-n", "team", "--attempt", "1")
    assert said.code == EXIT_INVALID
    assert "--attempt: got 1; expected no value with -n" in said.stderr


def test_a_log_has_bytes_that_are_not_utf8(world: Path) -> None:
    (world / "log").write_bytes(b"a\xff\n")
    said = trainshed_here("logs", "digits", "-n", "team")
    assert said.stdout == "a\N{REPLACEMENT CHARACTER}\n"


def test_a_run_that_has_ended_is_not_suspended(world: Path) -> None:
    (world / "run").write_text(json.dumps(make_object("Succeeded")))
    said = trainshed_here("stop", "digits", "-n", "team")
    assert said.stdout == "digits Succeeded, step 5 of 10, loss 0.5\n"
    assert "patch" not in (world / "asked").read_text()


def test_a_run_is_stopped_by_suspending_it(world: Path) -> None:
    said = trainshed_here("stop", "digits", "-n", "team")
    assert said.stdout.startswith("digits Suspended, step 5 of 10")
    patch = (world / "asked").read_text().splitlines()[1]
    assert patch == '-n team patch trainingrun digits --type merge -p {"spec": {"suspend": true}}'
