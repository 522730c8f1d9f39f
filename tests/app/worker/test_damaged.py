"""A checkpoint of a bucket that is found damaged where it is fetched ends no run of its own."""

import time

import pytest
import torch
from torch import nn

from tests.app.builders_checkpoint import hold, make_manifest, make_tracked
from tests.builders import make_run
from tests.faulty_s3 import FaultyS3
from tests.s3_faults import Refusal, Rule
from trainshed.attempt import resume
from trainshed.attempt.launch import make_job
from trainshed.attempt.launch_config import Launch
from trainshed.attempt.retention import superfluous
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.state import random_state
from trainshed.checkpoint.store import DamagedError
from trainshed.checkpoint.tracked import TrackedObjects
from trainshed.failures import InfrastructureError
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.storage.bucket import Bucket
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import ClaimedAttempt
from trainshed.worker.checkpoint_saver import CheckpointSaver
from trainshed.worker.step_sync import Control
from trainshed_api.v1alpha1 import CheckpointSpec

pytestmark = pytest.mark.s3


def track() -> TrackedObjects:
    """Return what a function tracks: a model of two weights."""
    return make_tracked(nn.Linear(2, 1))


def write(parent: Folder, step: int) -> Folder:
    """Write a whole checkpoint of one worker, whose weights are all its step."""
    tracked = track()
    weights = tracked.first.module.state_dict()
    model = {name: torch.full_like(each, step) for name, each in weights.items()}
    state = {**tracked.state(), "random": [random_state()]}
    manifest = make_manifest(step).model_copy(update={"workers": 1})
    return checkpoint.write(parent, hold(model, state), manifest, trust_objects=False)


def damage(folder: Folder) -> None:
    """Alter a byte of the weights; their size stays."""
    content = bytearray(folder.read("model.pt"))
    content[len(content) // 2] ^= 1
    folder.write("model.pt", bytes(content))


def begin(prepared: Prepared) -> ClaimedAttempt:
    """Claim an attempt that nobody holds afterwards."""
    attempt = prepared.folder.claim(prepared.spec_hash, fresh=False)
    attempt.close()
    return attempt


def save_of(prepared: Prepared, attempt: ClaimedAttempt, given: Folder | None) -> CheckpointSaver:
    """Return the saver of a worker of an attempt that was given a checkpoint."""
    job = make_job(
        Launch(prepared, RunLocation(prepared.folder.at), given, [], time.time()), attempt
    )
    return CheckpointSaver(job, Control(), 0, 1)


@pytest.fixture
def prepared(in_bucket: Bucket, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """A run in a bucket, seen through a proxy that a test gives rules."""
    for name, value in faulty_s3.environment.items():
        monkeypatch.setenv(name, value)
    return prepare(make_run(train="tests.app.processes:children", epochs=3), RunLocation(in_bucket))


def test_a_group_goes_on_from_the_one_before_of_its_attempt(prepared: Prepared) -> None:
    attempt = begin(prepared)
    parent = prepared.folder.checkpoints(1)
    before, last = write(parent, 10), write(parent, 20)
    damage(last)

    with pytest.raises(InfrastructureError, match=r"model\.pt does not have") as caught:
        save_of(prepared, attempt, None).restore(track())
    assert caught.value.kind == "storage", "the workers start again"

    saver, tracked = save_of(prepared, attempt, None), track()
    saver.restore(tracked)
    assert (saver.start, saver.position.step) == (before, 10)
    assert tracked.first.module.state_dict()["bias"].tolist() == [10.0]
    assert "was found damaged" in saver.refused[0]


def test_who_of_a_group_comes_to_it_later_says_the_same(prepared: Prepared) -> None:
    attempt = begin(prepared)
    damage(write(prepared.folder.checkpoints(1), 10))
    first, later = (save_of(prepared, attempt, None) for _ in range(2))

    for saver in (first, later):
        with pytest.raises(InfrastructureError, match=r"damaged|does not have") as caught:
            saver.restore(track())
        assert caught.value.kind == "storage", "the workers start again"


def test_what_does_not_count_as_kept_is_the_damaged_one(prepared: Prepared) -> None:
    begin(prepared)
    kept = write(prepared.folder.checkpoints(1), 10)
    begin(prepared)
    own = prepared.folder.checkpoints(2)
    checkpoint.pass_over(write(own, 20))
    spec = CheckpointSpec(keep=2)
    assert superfluous([prepared.folder.checkpoints(1)], own, spec, None) == []

    write(own, 30)
    assert superfluous([prepared.folder.checkpoints(1)], own, spec, None) == []
    write(own, 40)
    assert superfluous([prepared.folder.checkpoints(1)], own, spec, None) == [kept]


REFUSALS = {
    "credentials that have ended": Rule(Refusal(400, "ExpiredToken"), method="GET"),
    "a part of it that somebody deleted": Rule(Refusal(404, "NoSuchKey"), key="*model.pt"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_the_storage_does_not_give_is_no_fault_of_the_function_s(
    prepared: Prepared, faulty_s3: FaultyS3, case: str
) -> None:
    attempt = begin(prepared)
    write(prepared.folder.checkpoints(1), 10)
    saver = save_of(prepared, attempt, None)
    faulty_s3.add(REFUSALS[case])

    with pytest.raises(InfrastructureError, match="checkpoint_000000010") as caught:
        saver.restore(track())
    assert caught.value.kind == "storage"


def test_one_that_cannot_be_passed_over_is_damaged_all_the_same(
    prepared: Prepared, faulty_s3: FaultyS3
) -> None:
    attempt = begin(prepared)
    damage(write(prepared.folder.checkpoints(1), 10))
    faulty_s3.add(Rule(Refusal(403, "AccessDenied"), method="PUT"))

    with pytest.raises(InfrastructureError, match=r"model\.pt does not have"):
        save_of(prepared, attempt, None).restore(track())


def test_the_next_attempt_goes_on_from_the_one_before_of_an_earlier_one(
    prepared: Prepared,
) -> None:
    begin(prepared)
    parent = prepared.folder.checkpoints(1)
    before, last = write(parent, 10), write(parent, 20)
    damage(last)
    second = begin(prepared)
    given, _ = resume.choose(prepared, fresh=False, number=2)
    assert given == last, "its sizes are those that it had"

    with pytest.raises(InfrastructureError, match=r"model\.pt does not have") as caught:
        save_of(prepared, second, given).restore(track())
    assert caught.value.kind == "damaged", "the attempt ends"

    given, refused = resume.choose(prepared, fresh=False, number=3)
    assert given == before
    assert f"{last}: was found damaged" in refused[0]
    # Whoever can mend it may: it is not swept as one that was never whole.
    assert checkpoint.half_written([parent]) == []
    assert last.stat("model.pt")


def test_one_that_the_run_names_is_left_as_it_is(prepared: Prepared, in_bucket: Bucket) -> None:
    theirs = write(in_bucket / "theirs", 10)
    damage(theirs)
    attempt = begin(prepared)

    with pytest.raises(DamagedError, match=str(theirs)):
        save_of(prepared, attempt, theirs).restore(track())
    assert theirs.stat(checkpoint.MANIFEST)
