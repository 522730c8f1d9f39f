"""Runs on a real Ray cluster: sent, followed, stopped, placed on groups, looked after."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from pydantic import BaseModel, JsonValue

from tests.app.cli_here import trainshed_here
from tests.app.jobs.server import Reply, serve
from tests.app.ray_head import Head, ask
from tests.app.ray_run import ROOT, Output, finish, start, trainshed, write_run
from trainshed_api.job import encode_run
from trainshed_api.loading import load_file
from trainshed_api.names import (
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_SUCCEEDED,
    EXIT_TERMINATED,
    STOPPED,
    SUCCEEDED,
)
from trainshed_api.progress import Progress, Started, parse_event
from trainshed_api.records import ResultRecord
from trainshed_api.snapshot import Snapshot, final_snapshot

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

UID = "0d9f1c2e-aaaa-bbbb-cccc-1234567890ab"
WORKERS: JsonValue = {"count": 1, "group": "gpu", "resources": {"cpu": 1}}
# Seconds: a busy machine takes long to import what a cluster is made of.
PATIENCE = 300
# Until it is told to stop.
FOREVER = 1_000_000


class JobDetails(BaseModel):
    """Which job a training is of; None for a driver that nobody submitted."""

    submission_id: str | None


class TrainRun(BaseModel):
    """What the dashboard says of a training."""

    status: str
    job_details: JobDetails


class TrainRuns(BaseModel):
    """What the dashboard says of all of them."""

    train_runs: list[TrainRun]


def read_result(folder: Path) -> ResultRecord:
    return ResultRecord.model_validate_json((folder / "result.json").read_text())


def make_data(**datasets: JsonValue) -> JsonValue:
    read: JsonValue = {"read": {"format": "parquet", "path": "rows"}}
    return {"cpus": 1, "datasets": {"train": read, **datasets}}


def call(head: Head, *words: str, **environment: str) -> Output:
    return trainshed_here(*words, environment=head.access | environment)


def states_of(head: Head, job: str) -> list[str]:
    """Return what the dashboard says of the training of a job.

    Ray 2.60 answers with status 500 once a job was deleted whose training it knows: ask before.
    """
    listed = TrainRuns.model_validate(ask(head, "/api/train/v2/runs/v1")).train_runs
    return [run.status for run in listed if run.job_details.submission_id == job]


def test_a_job_is_followed_to_its_end_and_each_part_runs_on_its_own_group(
    head: Head, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()

    def noted(who: str) -> JsonValue:
        options: JsonValue = {"folder": str(notes), "who": who}
        return {"use": "tests.app.placed_functions:transform", "options": options}

    read: JsonValue = {"format": "parquet", "path": "rows"}
    file = write_run(
        tmp_path,
        "placed",
        train="tests.app.placed_functions:train",
        config={"notes": str(notes)},
        epochs=2,
        batchSize=40,
        workers=WORKERS,
        data=make_data(
            train={
                "read": read,
                "transforms": [noted("streamed")],
                "cache": "none",
                "shuffle": {"mode": "global"},
            },
            valid={"read": read, "transforms": [noted("cached")], "cache": "objects"},
        ),
    )

    words = ("submit", str(file))
    output = trainshed(*words, environment=head.access, timeout_seconds=PATIENCE)

    assert output.code == EXIT_SUCCEEDED, output.stderr
    assert output.finished.outcome == SUCCEEDED
    assert read_result(head.home / "runs" / "local" / "placed").outcome == SUCCEEDED
    submitted = re.search(r"(placed-\S+) was submitted", output.stderr)
    assert submitted, output.stderr
    assert states_of(head, submitted[1]) == ["FINISHED"]
    ran = {tuple(path.name.split(".")[:2]) for path in notes.iterdir()}
    assert ran == {("streamed", "cpu"), ("cached", "cpu"), ("worker", "gpu")}


def test_a_job_with_code_of_its_own_is_followed_left_alone_stopped_and_forgotten(
    head: Head, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    shutil.copy(ROOT / "tests" / "app" / "placed_functions.py", tmp_path / "mine" / "my_code.py")
    file = write_run(
        tmp_path,
        "mine",
        train="my_code:train",
        code={"workingDir": "mine"},
        epochs=FOREVER,
        workers=WORKERS,
        data=make_data(),
    )
    sent = call(head, "submit", str(file), "--no-wait")
    job = sent.stdout.strip()
    assert job.startswith("mine-")
    assert job.endswith("-1")

    follower = start("submit", str(file), environment=head.access)
    assert follower.stdout
    while not isinstance(parse_event(follower.stdout.readline()), Progress):
        pass
    os.kill(follower.pid, signal.SIGINT)
    followed = finish(follower, PATIENCE)
    assert followed.code == EXIT_INTERRUPTED
    assert f"{job} is running already" in followed.stderr
    assert f"to stop it: trainshed stop {job} --address {head.address}" in followed.stderr

    assert call(head, "ps", "--ray", job).stdout.split()[:2] == [job, "RUNNING"]
    refused = call(head, "delete", job)
    assert (refused.code, refused.stderr) == (
        EXIT_INVALID,
        f"error: {job} is RUNNING: stop it first\n",
    )

    assert call(head, "stop", job).stdout == f"{job} STOPPED\n"
    result = read_result(head.home / "runs" / "local" / "mine")
    assert result.outcome == STOPPED
    assert result.checkpoint
    assert any(isinstance(event, Started) for event in call(head, "logs", job).events)

    assert call(head, "delete", job).stdout == f"{job} is deleted\n"
    listed = call(head, "ps", "--ray")
    assert listed.code == EXIT_SUCCEEDED
    assert job not in listed.stdout
    assert call(head, "ps", "--ray", job).stderr == f"error: {head.address} knows no job {job}\n"


def test_a_token_is_wanted_and_it_must_be_the_right_one(head: Head) -> None:
    without = call(head, "ps", "--ray", RAY_AUTH_TOKEN="")
    wrong = call(head, "ps", "--ray", RAY_AUTH_TOKEN="guessed")

    assert (without.code, wrong.code) == (EXIT_INVALID, EXIT_INVALID)
    assert "wants a token: set RAY_AUTH_TOKEN" in without.stderr
    assert "refuses the token of RAY_AUTH_TOKEN (403)" in wrong.stderr


def test_a_controller_s_attempt_is_made_once_told_of_and_stopped_by_an_answer(
    head: Head, tmp_path: Path
) -> None:
    told: list[Snapshot] = []
    stop = json.dumps({"stop": {"reason": "Suspended", "graceSeconds": 40}})

    def answer(_: str, body: str) -> Reply:
        told.append(Snapshot.model_validate_json(body))
        return 200, stop if told[-1].progress else '{"stop": null}'

    file = write_run(
        tmp_path,
        "kept",
        train="tests.app.placed_functions:train",
        epochs=FOREVER,
        workers=WORKERS,
        data=make_data(),
    )
    with serve(answer) as server:
        environment = head.inside | {
            "TRAINSHED_SPEC": encode_run(load_file(file)),
            "TRAINSHED_NAMESPACE": "team-a",
            "TRAINSHED_UID": UID,
            "TRAINSHED_ATTEMPT": "2",
            "TRAINSHED_PROGRESS_URL": server.address,
            "TRAINSHED_PROGRESS_TOKEN": "secret",
        }
        output = trainshed("run", environment=environment, timeout_seconds=PATIENCE)

    assert output.code == EXIT_TERMINATED, output.stderr
    folder = head.home / "runs" / "team-a" / "kept-0d9f1c2e"
    assert [path.name for path in (folder / "attempts").iterdir()] == ["2"]
    assert read_result(folder).message.startswith("Suspended: stopped after step")
    assert [snapshot.sequence for snapshot in told] == sorted({s.sequence for s in told})
    assert (told[0].state, told[-1].state) == ("Starting", "Ended")
    assert (told[-1].outcome, told[-1].exit_code) == (STOPPED, EXIT_TERMINATED)
    assert told[-1].checkpoint
    assert final_snapshot(output.stdout.splitlines()[-1])
