"""Of earlier attempts goes what nobody needs any more, and nothing else."""

import errno
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

from tests.app.builders_checkpoint import hold, make_manifest
from tests.app.conftest import set_environment
from tests.faulty_s3 import FaultyS3
from trainshed.attempt.retention import Retention
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.ray_snapshot import LINKED, seed
from trainshed.retry import RetryPolicy
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import CLAIM, RECORD, RunFolder
from trainshed_api.records import MachineRecord, RunRecord
from trainshed_api.v1alpha1 import BestSpec, CheckpointSpec

KEEP_TWO = CheckpointSpec(keep=2)
KEEP_TWO_AND_BEST = CheckpointSpec(keep=2, best=BestSpec(metric="valid.loss", mode="min"))


def make_folder(home: Folder, attempts: dict[int, dict[int, float]]) -> RunFolder:
    """Make a run's folder: by attempt, the loss of the checkpoint of each step."""
    folder = RunFolder(home)
    for number, losses in attempts.items():
        folder.claim("abc", fresh=number == 1, number=number).close()
        parent = folder.checkpoints(number)
        for step, loss in losses.items():
            model = {"weight": torch.zeros(1)}
            checkpoint.write(
                parent, hold(model, {}), make_manifest(step, loss=loss), trust_objects=False
            )
    return folder


def steps(folder: RunFolder) -> list[tuple[int, int]]:
    """Return (attempt, step) of all checkpoints that are there."""
    found = []
    for number in folder.attempts():
        for path in checkpoint.candidates([folder.checkpoints(number)]):
            found.append((number, checkpoint.verify(path).position.step))
    return sorted(found)


def sweep(
    folder: RunFolder, attempt: int, spec: CheckpointSpec, named: Folder | None = None
) -> str | None:
    """Sweep as a driver does that saw a checkpoint, and then its end."""
    retention = Retention(folder, attempt, spec, named)
    retention.begin()
    retention.finish()
    return retention.problem


def test_as_many_stay_as_are_kept_the_latest_ones(place: Folder) -> None:
    folder = make_folder(place, {1: {10: 0.5, 20: 0.5}, 2: {30: 0.5}})

    assert sweep(folder, 2, KEEP_TWO) is None
    assert steps(folder) == [(1, 20), (2, 30)]


def test_nothing_goes_before_there_is_something_of_ones_own(place: Folder) -> None:
    folder = make_folder(place, {1: {10: 0.5, 20: 0.5, 30: 0.5}, 2: {}})
    sweep(folder, 2, KEEP_TWO)

    assert steps(folder) == [(1, 10), (1, 20), (1, 30)]


@pytest.mark.parametrize("passed_over", ["an earlier order of rows", "no manifest"])
def test_one_that_can_be_gone_on_from_stays_before_those_that_cannot(
    passed_over: str, place: Folder
) -> None:
    folder = make_folder(place, {1: {10: 0.5, 20: 0.5, 30: 0.5}, 2: {40: 0.5}})
    newest, before, usable = checkpoint.candidates([folder.checkpoints(1)])
    for left in (newest, before):
        if passed_over == "no manifest":
            left.delete(checkpoint.MANIFEST)
        else:
            text = left.read(checkpoint.MANIFEST).replace(b'"order": 3', b'"order": 1')
            left.write(checkpoint.MANIFEST, text)
    sweep(folder, 2, CheckpointSpec(keep=3))

    # In a bucket one without a manifest was never whole, and is no checkpoint.
    passed = [] if place.path is None and passed_over == "no manifest" else [newest]
    assert checkpoint.candidates([folder.checkpoints(1)]) == [*passed, usable]


@pytest.mark.parametrize("spec", [KEEP_TWO, KEEP_TWO_AND_BEST])
def test_a_sweep_asks_no_more_after_many_attempts_than_after_one(
    in_bucket: Bucket, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch, spec: CheckpointSpec
) -> None:
    set_environment(monkeypatch, faulty_s3.environment)
    place = Bucket(in_bucket.root, "through/faults")
    folder = make_folder(place, {number: {number: 1 / number} for number in range(1, 13)})
    retention = Retention(folder, 12, spec, None)
    asked = []
    for _ in range(2):
        before = faulty_s3.count()
        retention.begin()
        retention.wait()
        asked.append(faulty_s3.count() - before)

    assert steps(folder) == [(11, 11), (12, 12)]
    first, second = asked
    assert first > 30, "each of them was looked at"
    assert second < 20


def test_the_best_ones_stay(place: Folder) -> None:
    losses = {1: {10: 0.1, 20: 0.9, 30: 0.2}, 2: {40: 0.8, 50: 0.7}}
    folder = make_folder(place, losses)
    sweep(folder, 2, KEEP_TWO_AND_BEST)

    assert steps(folder) == [(1, 10), (1, 30), (2, 40), (2, 50)]


def say_what_began(folder: RunFolder, numbers: Sequence[int], resume: str) -> None:
    """Leave what attempts say that they began with."""
    for number in numbers:
        record = RunRecord(
            name="digits",
            spec={"checkpoint": {"resume": resume}},
            spec_hash="abc",
            created_at=datetime(2026, 11, 23, tzinfo=UTC),
            versions={},
            machine=MachineRecord(cpus=2, memory_bytes=1, gpus=0),
        )
        text = record.model_dump_json(by_alias=True)
        folder.attempt(number).write(RECORD, text.encode())


@pytest.mark.parametrize("is_linked", [False, True])
def test_the_one_that_the_run_names_stays(tmp_path: Path, is_linked: bool) -> None:
    folder = make_folder(Disk(tmp_path), {1: {10: 0.5, 20: 0.5}, 2: {30: 0.5, 40: 0.5}})
    named = checkpoint.candidates([folder.checkpoints(1)])[-1]
    if is_linked:
        (tmp_path / "good").symlink_to(str(named))
        named = Disk(tmp_path / "good")
    spec = CheckpointSpec(keep=2, resume=str(named))
    say_what_began(folder, [1, 2], spec.resume)
    sweep(folder, 2, spec, named)

    assert steps(folder) == [(1, 10), (2, 30), (2, 40)]


@pytest.mark.parametrize("resume", ["never", "pretrained/x"])
def test_what_another_training_left_stays(place: Folder, resume: str) -> None:
    folder = make_folder(place, {1: {10: 0.5, 20: 0.5}, 2: {30: 0.5, 40: 0.5}, 3: {50: 0.5}})
    say_what_began(folder, [1, 2], "latest")
    say_what_began(folder, [3], resume)
    sweep(folder, 3, CheckpointSpec(keep=1, resume=resume))

    assert steps(folder) == [(1, 10), (1, 20), (2, 30), (2, 40), (3, 50)]


def test_one_of_which_nobody_knows_whether_it_is_the_best_stays(place: Folder) -> None:
    folder = make_folder(place, {1: {10: 0.1}, 2: {20: 0.9, 30: 0.8}})
    (unread,) = checkpoint.candidates([folder.checkpoints(1)])
    unread.write(checkpoint.MANIFEST, b'{"format": 2}')
    best = BestSpec(metric="valid.loss", mode="min")
    sweep(folder, 2, CheckpointSpec(keep=1, best=best))

    assert unread.exists()


def test_what_attempts_were_given_to_begin_with_goes_as_the_checkpoints_do(place: Folder) -> None:
    folder = make_folder(place, {1: {10: 0.5}, 2: {20: 0.5}, 3: {30: 0.5, 40: 0.5}})
    for number in (2, 3):
        (given,) = checkpoint.candidates([folder.checkpoints(number - 1)])
        seed(folder.checkpoints(number), given)
    sweep(folder, 3, KEEP_TWO)

    assert steps(folder) == [(3, 30), (3, 40)]
    assert not (folder.checkpoints(2) / LINKED).exists()
    assert (folder.checkpoints(3) / LINKED).exists(), "that is Ray Train's, as long as this lives"


def test_who_was_given_up_deletes_nothing_that_the_next_attempt_may_go_on_from(
    place: Folder,
) -> None:
    losses = {1: {10: 0.5}, 2: {20: 0.5, 30: 0.5}, 3: dict[int, float]()}
    folder = make_folder(place, losses)
    sweep(folder, 2, KEEP_TWO)

    assert steps(folder) == [(1, 10), (2, 20), (2, 30)]


def test_what_was_before_a_fresh_start_stays(tmp_path: Path) -> None:
    folder = make_folder(Disk(tmp_path), {1: {10: 0.5, 20: 0.5}})
    folder.claim("abc", fresh=True, number=2).close()
    shutil.copytree(str(folder.checkpoints(1)), str(folder.checkpoints(2)))
    sweep(folder, 2, CheckpointSpec(keep=1))

    assert steps(folder) == [(1, 10), (1, 20), (2, 10), (2, 20)]


def test_what_may_have_been_before_a_fresh_start_stays(place: Folder) -> None:
    folder = make_folder(place, {1: {10: 0.5}, 2: {20: 0.5}, 3: {30: 0.5}})
    folder.attempt(2).write(CLAIM, b"")  # an earlier release's, when the power was lost
    sweep(folder, 3, CheckpointSpec(keep=1))

    assert steps(folder) == [(1, 10), (3, 30)]


@pytest.mark.parametrize("name", [".writing-x7", ".deleting-checkpoint_000000005_epoch0000"])
@pytest.mark.parametrize("attempt", [1, 2])
def test_what_a_killed_worker_or_driver_left_half_done_goes(
    name: str, attempt: int, tmp_path: Path
) -> None:
    folder = make_folder(Disk(tmp_path), {1: {10: 0.5}, 2: {20: 0.5}})
    left = folder.checkpoints(attempt) / name
    left.write("model.pt", b"half")
    sweep(folder, 2, KEEP_TWO)

    assert not left.exists()
    assert steps(folder) == [(1, 10), (2, 20)]


def test_what_cannot_be_deleted_is_said_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(Disk(tmp_path), {1: {10: 0.5, 20: 0.5}, 2: {30: 0.5, 40: 0.5}})

    def refuse(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    problem = sweep(folder, 2, KEEP_TWO)

    assert problem is not None
    assert "this old checkpoint could not be deleted" in problem
    assert "Input/output error" in problem
    assert steps(folder) == [(2, 30), (2, 40)], "a folder that is being deleted is no checkpoint"


def test_storage_that_does_not_answer_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(Disk(tmp_path), {1: {10: 0.5, 20: 0.5}, 2: {30: 0.5, 40: 0.5}})

    def refuse(*_: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    retention = Retention(folder, 2, KEEP_TWO, None)
    monkeypatch.setattr(Disk, "names", refuse)
    monkeypatch.setattr(checkpoint, "READS", RetryPolicy(rest=lambda _: None))
    retention.begin()
    retention.finish()
    monkeypatch.undo()

    assert retention.problem is not None
    assert "Stale file handle" in retention.problem
    assert steps(folder) == [(1, 10), (1, 20), (2, 30), (2, 40)]
