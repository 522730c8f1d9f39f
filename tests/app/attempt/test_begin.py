"""What cannot begin, or has come to its end, says so to its user and to its controller."""

import json
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.app.builders_checkpoint import write_checkpoint
from tests.app.jobs.server import serve
from tests.builders import make_run
from trainshed.attempt import begin, launch, resume
from trainshed.attempt.begin import RunOptions
from trainshed.attempt.launch_config import Launch
from trainshed.attempt.provenance import run_record
from trainshed.attempt.signals import Stop
from trainshed.attempt.snapshot_publisher import ProgressEndpoint, SnapshotPublisher
from trainshed.checkpoint import ray_snapshot
from trainshed.checkpoint import store as checkpoint
from trainshed.planning.cluster_capacity import ClusterNodes, Node
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.storage.driver_identity import Identity
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import RECORD, RESULT, AttemptHeldError
from trainshed_api.errors import SpecError
from trainshed_api.job import encode_run
from trainshed_api.names import (
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_SUCCEEDED,
    INVALID,
    NODE_GROUP_LABEL,
    SUCCEEDED,
)
from trainshed_api.records import ResultRecord
from trainshed_api.snapshot import Snapshot, final_snapshot

# Nobody is there: whoever tries to join has already been found to be in order.
ADDRESS = "127.0.0.1:1"
Chosen = tuple[Folder | None, Sequence[str]]
UID = "0d9f1c2e-aaaa-bbbb-cccc-1234567890ab"


def make_options() -> RunOptions:
    return RunOptions(fresh=False, started=time.time(), stop=Stop())


def make_prepared(place: RunLocation) -> Prepared:
    """Return a run without data of 3 epochs."""
    return prepare(make_run(train="tests.app.processes:children", epochs=3), place)


def leave_result(prepared: Prepared) -> None:
    """Leave what the first attempt does that succeeds."""
    result = ResultRecord(
        outcome=SUCCEEDED,
        epochs=3,
        wall_seconds=1.0,
        attempt=1,
        finished_at=datetime.now(UTC),
        report="report.html",
    )
    prepared.folder.at.write(RESULT, result.model_dump_json(by_alias=True).encode())


def begin_job(monkeypatch: pytest.MonkeyPatch, *settings: str, **environment: str) -> None:
    """Begin as a job whose environment has these variables, TRAINSHED_ and all before them."""
    for name in ("RAY_ADDRESS", "TRAINSHED_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    begin.begin_job(settings, make_options())


def test_a_job_joins_the_cluster_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="RAY_ADDRESS: not set; TRAINSHED_SPEC is for Ray jobs"):
        begin_job(monkeypatch, TRAINSHED_SPEC=encode_run(make_run()), TRAINSHED_HOME="/home")


def test_a_job_does_not_guess_where_its_files_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="TRAINSHED_HOME: not set in this cluster; it names"):
        begin_job(monkeypatch, TRAINSHED_SPEC=encode_run(make_run()), RAY_ADDRESS=ADDRESS)


def test_a_run_that_is_refused_is_told_to_user_log_and_controller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    want = 'spec.epochs: got "three"; expected an integer >= 1 and <= 2147483647'
    with (
        serve(lambda *_: (200, '{"stop": null}')) as server,
        pytest.raises(SpecError) as caught,
    ):
        begin_job(
            monkeypatch,
            "spec.epochs=three",
            RAY_ADDRESS=ADDRESS,
            TRAINSHED_HOME=str(tmp_path),
            TRAINSHED_SPEC=encode_run(make_run()),
            TRAINSHED_NAMESPACE="team-a",
            TRAINSHED_UID="0d9f1c2e",
            TRAINSHED_ATTEMPT="1",
            TRAINSHED_PROGRESS_URL=server.address,
            TRAINSHED_PROGRESS_TOKEN="secret",
        )

    assert str(caught.value) == want
    told = [Snapshot.model_validate_json(body) for _, body in server.asked]
    assert [(s.cause, s.exit_code, s.message) for s in told] == [(INVALID, EXIT_INVALID, want)]
    logged = final_snapshot(capsys.readouterr().out)
    assert logged
    assert logged.message == want
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_says_so_to_user_and_controller_and_is_not_attempted_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = RunLocation(Disk(tmp_path), in_cluster=True, identity=Identity("team-a", UID, 2))
    prepared = make_prepared(place)
    prepared.folder.claim(prepared.spec_hash, fresh=False, number=1).close()
    leave_result(prepared)
    publisher = SnapshotPublisher(2, None, time.time(), Stop())

    code = begin.begin(prepared.run, place, tmp_path, make_options(), publisher)

    assert code == EXIT_SUCCEEDED
    assert capsys.readouterr().out == (
        "digits is finished: --fresh trains it again\nreport: report.html\n"
    )
    assert prepared.folder.attempts() == [1]
    told = final_snapshot(publisher.deliver())
    assert told
    assert (told.outcome, told.exit_code) == (SUCCEEDED, EXIT_SUCCEEDED)
    assert (told.message, told.result) == (
        "finished by attempt 1",
        f"{prepared.folder.at}/result.json",
    )


@pytest.mark.parametrize("is_ours", [False, True])
def test_an_attempt_resumes_no_checkpoint_that_lies_in_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ours: bool
) -> None:
    place, launched = RunLocation(Disk(tmp_path)), list[Launch]()
    prepared = make_prepared(place)
    folder = prepared.folder.checkpoints(1)  # its claim was not restored
    if is_ours:
        write_checkpoint(folder, 10)
    else:
        (folder / "checkpoint_2026").write("model.pt", b"weights")
        own = {"checkpoint_dir_name": "checkpoint_2026", "metrics": {}}
        snapshot = {"checkpoint_results": [own], "latest_checkpoint_result": own}
        folder.write(ray_snapshot.SNAPSHOT, json.dumps(snapshot).encode())

    def keep(given: Launch, *_: object) -> int:
        launched.append(given)
        return EXIT_INTERRUPTED

    monkeypatch.setattr(launch, "run", keep)
    begin.begin(prepared.run, place, tmp_path, make_options())

    assert [each.resume_from for each in launched] == [None]


def test_a_finished_run_names_code_that_changed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    place = RunLocation(Disk(tmp_path))
    prepared = prepare(make_run(train=None, entrypoint=["python", "train.py"]), place)
    prepared.folder.claim(prepared.spec_hash, fresh=False).close()
    record = run_record(prepared, tmp_path, started=0.0)
    prepared.folder.at.write(RECORD, record.model_dump_json(by_alias=True).encode())
    leave_result(prepared)

    begin.begin(prepared.run, place, tmp_path, make_options())
    assert "changed" not in capsys.readouterr().out

    script.write_text("print(2)\n")
    assert begin.begin(prepared.run, place, tmp_path, make_options()) == EXIT_SUCCEEDED
    assert "code changed since digits was trained: train.py. " in capsys.readouterr().out


@pytest.mark.parametrize("is_over", [False, True])
def test_how_far_the_driver_before_came_while_this_one_looked_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    place = RunLocation(Disk(tmp_path))
    prepared = make_prepared(place)
    before = prepared.folder.claim(prepared.spec_hash, fresh=False)
    folder = prepared.folder.checkpoints(1)
    write_checkpoint(folder, 10)
    look, launched = resume.choose, list[Launch]()

    def look_long(prepared: Prepared, fresh: bool, number: int | None = None) -> Chosen:
        found = look(prepared, fresh, number)
        if number is None:
            write_checkpoint(folder, 20)
            if is_over:
                leave_result(prepared)
            before.close()
        return found

    def keep(given: Launch, *_: object) -> int:
        launched.append(given)
        return EXIT_INTERRUPTED

    monkeypatch.setattr(resume, "choose", look_long)
    monkeypatch.setattr(launch, "run", keep)
    code = begin.begin(prepared.run, place, tmp_path, make_options())

    if is_over:
        assert (code, launched) == (EXIT_SUCCEEDED, [])
    else:
        newest = checkpoint.candidates([folder])[0]
        assert (code, [each.resume_from for each in launched]) == (EXIT_INTERRUPTED, [newest])
        assert "000000020" in newest.name


@pytest.mark.parametrize("is_gone", [False, True], ids=["at work", "gone"])
def test_an_attempt_that_another_driver_made_is_made_once_and_the_late_one_tells_nobody(
    is_gone: bool, tmp_path: Path
) -> None:
    place = RunLocation(Disk(tmp_path), in_cluster=True, identity=Identity("team-a", UID, 2))
    prepared = make_prepared(place)
    with (
        closing(prepared.folder.claim(prepared.spec_hash, fresh=False, number=2)) as first,
        serve(lambda *_: (200, '{"stop": null}')) as server,
    ):
        if is_gone:
            first.close()
        publisher = SnapshotPublisher(
            2, ProgressEndpoint(server.address, "secret"), time.time(), Stop()
        )
        with pytest.raises(AttemptHeldError, match="attempt 2 is held by"):
            begin.begin(prepared.run, place, tmp_path, make_options(), publisher)
        assert server.asked == []

    assert prepared.folder.at == Disk(tmp_path / "runs" / "team-a" / "digits-0d9f1c2e")
    assert prepared.folder.attempts() == [2]


def test_more_workers_than_the_group_holds_are_refused_with_the_arithmetic_and_leave_nothing(
    tmp_path: Path,
) -> None:
    gpu, cpu = (Node({NODE_GROUP_LABEL: name}, {"CPU": 2}, {"CPU": 2}) for name in ("gpu", "cpu"))
    place = RunLocation(Disk(tmp_path), in_cluster=True, cluster=ClusterNodes([gpu, cpu]))
    run = make_run(
        train="tests.app.processes:children",
        workers={"count": 8, "group": "gpu"},
        batchSize=8,
    )

    with pytest.raises(SpecError) as caught:
        begin.begin(run, place, tmp_path, make_options())

    want = "what fits: group gpu has 2 CPUs on 1 nodes, enough for 2"
    assert str(caught.value) == f"spec.workers: got 8 x (1 CPUs); expected {want}"
    assert list(tmp_path.iterdir()) == []
