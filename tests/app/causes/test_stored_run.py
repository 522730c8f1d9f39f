"""The cause of what a run on this machine did, by the files in its folder, without Ray."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner

from tests.app.alone import train_alone
from tests.app.bad_runs import add_text_file
from tests.app.bad_runs import make_data as make_users_data
from tests.app.bad_runs import make_spec as make_users_spec
from tests.app.builders_rows import write_rows
from tests.app.cli_here import trainshed_here
from tests.app.failing_runs import make_spec, write_numbers
from tests.app.ray_run import write_run
from trainshed.causes.stored_run import StoredRun, explain, read
from trainshed.cli.why import why
from trainshed.storage.disk import Disk
from trainshed.storage.run_folder import RunFolder
from trainshed_api.progress import (
    AnyEvent,
    Progress,
    Seconds,
    Started,
    Starting,
    WarningEvent,
    WorkersLost,
)
from trainshed_api.records import ResultRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from trainshed.causes.chain import Diagnosis
    from trainshed_api.names import Outcome

BEGAN = 1_800_000_000.0
SLOW = "waiting for data takes 61 % of the time: decode needs 9 ms a row"
RESTARTED = WorkersLost(time=BEGAN + 40, message="a node was lost")


def started() -> Started:
    return Started(time=BEGAN + 20, run="digits", attempt=1, workers=2, folder="runs/local/digits")


def steps(number: int, seconds: float = 1.0, waits: float = 2.0) -> list[AnyEvent]:
    """Return the events of so many steps that take so long."""
    return [
        Progress(time=BEGAN + 30 + seconds * at, step=at, steps=100, data_wait_percent=waits)
        for at in range(1, number + 1)
    ]


def make_run(state: str = "Running", **changes: object) -> StoredRun:
    """Return a run of one attempt that has trained for a while, with changes."""
    events: Sequence[AnyEvent] = [started(), *steps(10)]
    told: dict[str, object] = {
        "attempt": 1,
        "began": BEGAN,
        "seen": BEGAN + 41,
        "now": BEGAN + 42,
        "events": events,
        "batch_size": 64,
    }
    return StoredRun("digits", "runs/local/digits", state, **{**told, **changes})  # type: ignore[arg-type]


def make_result(outcome: Outcome, message: str = "", **fields: object) -> ResultRecord:
    moment = datetime.fromtimestamp(BEGAN + 41, UTC)
    told = {"wall_seconds": 41.0, "attempt": 1, "finished_at": moment, "message": message}
    return ResultRecord.model_validate({"outcome": outcome, **told, **fields})


def explained(run: StoredRun) -> Diagnosis:
    return explain(run, "digits", "run.yaml")


class Failure(NamedTuple):
    """A failed attempt: what its result says, and the link and the command that follow."""

    message: str
    link: str
    command: str


SMALLER = "trainshed run run.yaml --fresh --set spec.batchSize=32"
AGAIN, LOGS = "trainshed run run.yaml", "trainshed logs digits"
FAILURES = {
    "a loss that is no number": Failure(
        "NonFiniteLossError: the loss is NaN or infinite at step 7 (worker 0, step 6)",
        "training",
        LOGS,
    ),
    "an error of the function": Failure("KeyError: 'lable' (worker 1, step 6)", "training", LOGS),
    "a package that is missing": Failure(
        "ModuleNotFoundError: No module named 'timm' (worker 0, step 0)",
        "file",
        "trainshed validate run.yaml",
    ),
    "a package that a later step imports": Failure(
        "ModuleNotFoundError: No module named 'timm' (worker 0, step 6)", "training", LOGS
    ),
    "a text with the name of a field": Failure(
        "ValueError: not as in spec.foo (worker 0, step 6)", "training", LOGS
    ),
    "memory of a GPU": Failure(
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB (worker 0, step 0)",
        "workers",
        SMALLER,
    ),
    "memory of a node": Failure(
        "a node ran out of memory: OutOfMemoryError: Task was killed due to the node running low "
        "on memory",
        "workers",
        SMALLER,
    ),
    "a full object store": Failure(
        "ObjectStoreFullError: Failed to put object in object store", "workers", SMALLER
    ),
    "a shared memory that is too small": Failure(
        "shared memory ran out: DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970",
        "workers",
        AGAIN,
    ),
    "a corrupt file": Failure(
        "DataError: /data/part-2.parquet: row groups 3 to 4 cannot be read (worker 0, step 9)",
        "data",
        "trainshed data show run.yaml --dataset train",
    ),
    "a transform": Failure(
        "FunctionError: spec.data.datasets.valid.transforms[0].use: my:halve raised KeyError: 'z'",
        "data",
        "trainshed data show run.yaml --dataset valid",
    ),
    "a full storage": Failure(
        "the storage is full: OSError: [Errno 28] No space left on device", "driver", AGAIN
    ),
    "a storage that became read-only": Failure(
        "OSError: [Errno 30] Read-only file system: '/runs/a' (worker 0, step 6)", "driver", AGAIN
    ),
    "a broken GPU": Failure(
        "a GPU is broken: RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "workers",
        AGAIN,
    ),
    "a lost node": Failure(
        "a node or one of its processes was lost: NodeDiedError", "workers", AGAIN
    ),
    "a lost coordinator": Failure(
        "the coordinator process of the run was lost; this attempt wrote no checkpoint",
        "driver",
        AGAIN,
    ),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_the_link_that_ended_an_attempt_is_the_cause(failure: Failure) -> None:
    found = explained(make_run("Failed", result=make_result("Failed", failure.message)))

    assert found.cause == failure.message
    assert [link.name for link in found.links if link.state == "failed"] == [failure.link]
    assert found.next == failure.command


def test_a_driver_that_was_killed_is_the_cause_after_lost_workers_too() -> None:
    run = make_run("Interrupted", driver="process 12 on here", events=[started(), RESTARTED])

    found = explained(run)

    assert found.cause.startswith("process 12 on here ended without a result: it was killed")
    assert found.next == AGAIN
    assert "a node was lost" in next(e for link in found.links for e in link.evidence)


def test_an_earlier_loss_of_workers_does_not_hide_what_failed_later() -> None:
    message = "NonFiniteLossError: the loss is NaN or infinite at step 7 (worker 0, step 6)"
    events = [started(), *steps(5), RESTARTED]

    found = explained(make_run("Failed", events=events, result=make_result("Failed", message)))

    assert [link.name for link in found.culprits] == ["training"]


HEALTHY = {
    "a run that trains": make_run(),
    "slow steps": make_run(events=[started(), *steps(3, seconds=300.0)], now=BEGAN + 1200),
    "a run that waits for data": make_run(
        events=[started(), WarningEvent(time=BEGAN, message=SLOW), *steps(5, waits=61.0)]
    ),
    "a run that waited for data earlier": make_run(
        events=[started(), WarningEvent(time=BEGAN, message=SLOW), *steps(5)]
    ),
    "a run that lost workers and goes on": make_run(events=[started(), RESTARTED, *steps(20)]),
    "a run that succeeded": make_run("Succeeded", result=make_result("Succeeded")),
    "a slow run that succeeded": make_run(
        "Succeeded",
        result=make_result("Succeeded", seconds=Seconds(evaluating=20.0, training=15.0)),
    ),
    "a run without a step for less than its deadline": make_run(now=BEGAN + 400),
    "a run without a deadline": make_run(now=BEGAN + 90_000, stall_deadline=0),
    "a run whose file has changed": make_run(problems=["spec.train: got t2:train"]),
    "a run that was stopped": make_run("Stopped", result=make_result("Stopped", "Interrupted")),
}


@pytest.mark.parametrize("run", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_run_blames_nothing(run: StoredRun) -> None:
    found = explained(run)

    assert found.culprits == ()
    assert found.cause.startswith("Nothing")


def test_a_slow_run_says_which_stage_limits_it_and_by_how_much() -> None:
    assert explained(HEALTHY["a run that waits for data"]).cause == f"Nothing is wrong, but {SLOW}"
    assert explained(HEALTHY["a run that waited for data earlier"]).limit == ""
    slow = explained(HEALTHY["a slow run that succeeded"])
    assert slow.cause == "Nothing failed; evaluation took 49 % of the time (20 s)"


def test_a_run_waits_for_training_after_the_deadline_for_a_step() -> None:
    found = explained(make_run(now=BEGAN + 400, stall_deadline=300))

    assert [link.name for link in found.culprits] == ["training"]
    assert found.cause == "no step for 6 min 00 s, after step 10 of 100"


def test_a_pause_that_may_be_an_evaluation_is_said() -> None:
    training = explained(make_run(now=BEGAN + 400)).links[-1]

    assert training.says.startswith("no step for 6 min 00 s, after step 10 of 100 (an evaluation")


def test_a_later_change_of_the_file_is_evidence_alone() -> None:
    file = explained(HEALTHY["a run whose file has changed"]).links[0]

    assert (file.state, file.evidence) == (
        "ok",
        ("it has changed since: spec.train: got t2:train",),
    )


def test_an_attempt_with_a_checkpoint_does_not_start_over_after_it_ran_out_of_memory() -> None:
    record = {"path": "attempts/1/ray/c", "epoch": 1, "step": 5}
    message = FAILURES["memory of a GPU"].message
    result = make_result("Failed", message, checkpoint=record)

    assert explained(make_run("Failed", result=result)).next == AGAIN


def test_workers_that_have_not_started_are_what_a_run_waits_for() -> None:
    note = "spec.workers: waits for 2 CPUs"
    phase = Starting(time=BEGAN + 1, phase="workers")
    run = make_run(events=[phase, WarningEvent(time=BEGAN + 2, message=note)])

    said = f"the workers have not started for 42 s: starting workers: {note}"
    assert explained(run).cause == said


# --------------------------------------------------------------- real failures


def test_the_failure_of_a_real_run_is_explained_with_its_log(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    left = train_alone(tmp_path, make_spec("nan"))
    left.folder.attempt(1).write(
        "driver.log", b"OSError: earlier\n" + b"step\n" * 20 + b"NonFiniteLossError: the loss\n"
    )

    said = trainshed_here("why", str(left.path))

    assert said.stdout.splitlines()[1].startswith("cause: NonFiniteLossError: the loss is NaN")
    assert "  failed  training  NonFiniteLossError" in said.stdout
    assert "NonFiniteLossError: the loss\n\ndocs: " in said.stdout
    assert "earlier" not in said.stdout


def test_of_a_long_attempt_the_start_and_the_last_steps_are_read(tmp_path: Path) -> None:
    run = RunFolder(Disk(tmp_path / "digits"))
    run.claim("hash", fresh=False).close()
    events = [started(), *steps(5_000)]
    lines = "".join(f"{event.to_line()}\n" for event in (*events, RESTARTED))
    run.attempt(1).write("metrics.jsonl", lines.encode())

    found = read(run.at).events

    assert list(found[:2]) == events[:2]
    assert list(found[2:]) == [*events[-1_000:], RESTARTED]


def write_users_module(folder: Path) -> None:
    (folder / "users_module.py").write_text("def train(): ...\n")
    write_rows(folder / "rows", 60)


FILES = {
    "a module that is missing": (
        make_users_spec(train="nowhere:train"),
        "file",
        "spec.train: got nowhere:train; expected a module",
    ),
    "no GPU on this machine": (
        make_users_spec(workers={"resources": {"gpu": 1}}),
        "file",
        "spec.workers.resources.gpu: got 1",
    ),
    "data that are missing": (
        make_users_spec(data=make_users_data("no/rows")),
        "data",
        "no/rows; expected a parquet file or folder that exists",
    ),
    "a file that is corrupt": (
        make_users_spec(),
        "data",
        "part-9.parquet; expected a parquet file",
    ),
    "a storage that refuses files": (make_users_spec(storage="file"), "file", "spec.storage: got"),
    "a misspelt field": (make_users_spec(batchsize=8), "file", 'did you mean "batchSize"?'),
}


@pytest.mark.parametrize("named", FILES)
def test_what_the_file_of_a_run_gets_wrong_is_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    spec, link, message = FILES[named]
    (tmp_path / "file").write_text("no folder")
    write_users_module(tmp_path)
    if "corrupt" in named:
        add_text_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    file = write_run(tmp_path, "test", **spec)

    said = json.loads(CliRunner().invoke(why, [str(file), "--output", "json"]).stdout)

    assert message in said["cause"]
    assert said["link"] == link


def test_a_killed_driver_is_found_by_the_name_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunFolder(Disk(tmp_path / "runs" / "local" / "digits"))
    run.claim("hash", fresh=False).close()

    killed = trainshed_here("why", "digits")
    unknown = trainshed_here("why", "letters")

    where = tmp_path / "runs" / "local" / "digits"
    assert killed.stdout.startswith(f"digits: Interrupted ({where})\ncause: process ")
    assert killed.stdout.endswith("next: trainshed run FILE\n")
    assert "got letters; expected the name, file or folder of a run" in unknown.stderr


@pytest.mark.parametrize("mistake", [{"batchsize": 8}, {"train": "nowhere:train"}])
def test_a_mistake_in_the_file_does_not_hide_the_run_that_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: dict[str, JsonValue]
) -> None:
    write_users_module(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    claimed = RunFolder(Disk(tmp_path / "runs" / "local" / "test")).claim("hash", fresh=False)
    file = write_run(tmp_path, "test", **make_users_spec(**mistake))

    said = json.loads(CliRunner().invoke(why, [str(file), "--output", "json"]).stdout)
    claimed.close()

    assert said["state"] == "Running"
    assert said["link"] != "file"
    assert "it has changed since" in said["links"][0]["evidence"][0]
