"""`trainshed ps`, `logs` and `stop` of runs on this machine: found by their leases, without Ray."""

import json
import signal
import socket
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.app.cli_here import trainshed_here
from tests.builders import make_document
from trainshed.cli.main import cli
from trainshed.jobs import access
from trainshed.jobs.local_runs import LocalRun, stop_local
from trainshed.storage.disk import Disk
from trainshed.storage.run_folder import CLAIM, HEARTBEAT, LOG, RESULT, Claim, RunFolder
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED, EXIT_TRY_AGAIN
from trainshed_api.records import ResultRecord


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINSHED_HOME", raising=False)
    return tmp_path


@pytest.fixture
def signals() -> Iterator[list[int]]:
    """Return the signals that this process got."""
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    yield got
    signal.signal(signal.SIGTERM, before)


def run_in(home: Path, name: str) -> RunFolder:
    return RunFolder(Disk(home / "runs" / "local" / name))


def change_claim(run: RunFolder, **changed: object) -> None:
    claim = run.claimed(1)
    assert claim
    changed_claim = Claim(**{**asdict(claim), **changed})
    run.attempt(1).write(CLAIM, json.dumps(asdict(changed_claim)).encode())


def end(run: RunFolder) -> None:
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    record = ResultRecord(outcome="Succeeded", wall_seconds=5, attempt=1, finished_at=moment)
    run.at.write(RESULT, record.model_dump_json(by_alias=True).encode())


def test_runs_are_listed_with_their_state(home: Path) -> None:
    running, ended, killed = (run_in(home, name) for name in ("b", "a", "c"))
    held = running.claim("hash", fresh=False)
    ended.claim("hash", fresh=False).close()
    end(ended)
    killed.claim("hash", fresh=False).close()
    killed.attempt(1).write(HEARTBEAT, b"1.0\n")
    change_claim(killed, pid_started=1)

    listed = trainshed_here("ps")
    one = trainshed_here("ps", "b")
    record = json.loads(CliRunner().invoke(cli, ["ps", "a", "--output", "json"]).stdout)
    held.close()

    assert [line.split()[:4] for line in listed.stdout.splitlines()] == [
        ["a", "Succeeded", "attempt", "1"],
        ["b", "Running", "attempt", "1"],
        ["c", "Interrupted", "attempt", "1"],
    ]
    assert one.stdout.split()[:2] == ["b", "Running"]
    assert (record["name"], record["status"], record["attempt"]) == ("a", "Succeeded", 1)
    assert record["folder"] == str(ended.at)


def test_a_folder_without_runs_is_named(home: Path) -> None:
    said = trainshed_here("ps")

    assert (said.code, said.stdout) == (EXIT_SUCCEEDED, "")
    assert f"no runs in {home}/runs" in said.stderr


def test_a_run_is_stopped_by_its_name(home: Path, signals: list[int]) -> None:
    held = run_in(home, "digits").claim("hash", fresh=False)

    said = trainshed_here("stop", "digits", "--no-wait")
    held.close()

    assert (said.code, said.stdout) == (EXIT_SUCCEEDED, "digits is stopping\n")
    assert signals == [signal.SIGTERM]


def test_a_process_that_only_has_the_number_is_not_stopped(home: Path, signals: list[int]) -> None:
    run = run_in(home, "digits")
    run.claim("hash", fresh=False).close()
    change_claim(run, pid_started=1)

    stop_local(LocalRun("digits", run.at, "Running", attempt=1, started=0.0, ended=None))

    assert signals == []


def test_a_run_of_another_machine_is_not_stopped_here(home: Path, signals: list[int]) -> None:
    run = run_in(home, "digits")
    held = run.claim("hash", fresh=False)
    change_claim(run, host="elsewhere")

    said = trainshed_here("stop", "digits")
    held.close()

    assert said.code == EXIT_INVALID
    assert "digits runs on elsewhere" in said.stderr
    assert signals == []


def test_logs_are_found_by_the_name_of_a_run_beside_a_folder_of_that_name(home: Path) -> None:
    run = run_in(home, "digits")
    (home / "digits").mkdir()
    run.claim("hash", fresh=False).close()
    run.attempt(1).write(LOG, b"begins\n")

    assert trainshed_here("logs", "digits").stdout == "begins\n"


def test_a_run_is_found_by_the_folder_of_its_project(home: Path) -> None:
    project = home / "codes"
    project.mkdir()
    document = make_document() | {"metadata": {"name": "mine"}}
    (project / "run.yaml").write_text(yaml.safe_dump(document))
    run = RunFolder(Disk(project / "runs" / "local" / "mine"))
    run.claim("hash", fresh=False).close()
    run.attempt(1).write(LOG, b"begins\n")
    end(run)

    assert trainshed_here("ps", "codes").stdout.split()[:2] == ["mine", "Succeeded"]
    assert trainshed_here("logs", "codes").stdout == "begins\n"
    assert trainshed_here("stop", "codes").stdout == "mine Succeeded\n"


@pytest.mark.parametrize("command", ["logs", "stop"])
def test_a_name_of_no_run_and_no_cluster_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(access, "DEFAULT_ADDRESS", nobody)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    said = trainshed_here(command, "nobody")
    of_cluster = trainshed_here(command, "nobody", "--address", nobody)

    assert said.code == EXIT_INVALID
    assert "NAME: got nobody; expected the name or folder of a run on this machine" in said.stderr
    assert of_cluster.code == EXIT_TRY_AGAIN
