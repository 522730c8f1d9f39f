"""A bucket that fails while a run is under way: it goes on, or says in a sentence what to do."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.app.alone import Left, train_alone
from tests.app.failing_runs import make_data, make_spec, write_numbers
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from tests.s3_faults import SLOW_DOWN, Refusal, Rule
from trainshed.checkpoint import store as checkpoint
from trainshed.storage.bucket import Bucket
from trainshed.storage.run_folder import ENDED, HEARTBEAT, RunFolder
from trainshed_api.names import FAILED, SUCCEEDED
from trainshed_api.progress import WarningEvent

pytestmark = pytest.mark.timeout(600)

# Each other one, and each at the end of one of 3 epochs.
ALL_STEPS = {2, 4, 5, 6, 8, 10, 12, 14, 15}
EXPIRED = Refusal(400, "ExpiredToken")


@dataclass(frozen=True)
class Scene:
    """A run whose storage is a bucket behind a proxy.

    Args:
        home: where its rows lie, on a disk.
        storage: of its runs.
        proxy: that all requests go through.
    """

    home: Path
    storage: Bucket
    proxy: FaultyS3

    def train(self) -> Left:
        """Run the next attempt, with a checkpoint at every other step."""
        spec = make_spec(
            data=make_data(),
            checkpoint={"everyEpochs": 1, "everySteps": 2, "keep": 50},
            storage=str(self.storage),
        )
        return train_alone(self.home, spec)

    def checkpoints(self) -> set[int]:
        """Return the steps of all whole checkpoints."""
        run = RunFolder(self.storage / "local/digits")
        parents = [run.checkpoints(number) for number in run.attempts()]
        found = [checkpoint.verify(each) for each in checkpoint.candidates(parents)]
        return {manifest.position.step for manifest in found}


@pytest.fixture
def scene(
    faulty_s3: FaultyS3, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Scene:
    """A run's home and its bucket."""
    for name, value in faulty_s3.environment.items():
        monkeypatch.setenv(name, value)
    write_numbers(tmp_path)
    return Scene(tmp_path, Bucket(f"s3://{bucket}", "runs"), faulty_s3)


def warnings(left: Left) -> list[str]:
    """Return what was warned of."""
    return [event.message for event in left.events if isinstance(event, WarningEvent)]


def at_first_upload(scene: Scene, do: Callable[[], object]) -> threading.Thread:
    """Do something as soon as the first weights are on their way."""

    def wait() -> None:
        while not scene.proxy.count("PUT", "*model.pt"):
            pass
        do()

    thread = threading.Thread(target=wait, name="fault", daemon=True)
    thread.start()
    return thread


def test_a_refusal_of_every_third_request_costs_nothing_but_time(scene: Scene) -> None:
    scene.proxy.add(Rule(SLOW_DOWN, every=3))

    left = scene.train()

    assert left.verdict.outcome == SUCCEEDED, left.verdict
    assert warnings(left) == []
    scene.proxy.heal()
    assert scene.checkpoints() == ALL_STEPS


@pytest.mark.parametrize("seconds", [8, pytest.param(60, marks=pytest.mark.e2e)])
def test_a_server_that_goes_away_in_an_upload_holds_it_up_and_loses_nothing(
    scene: Scene, s3: S3Server, seconds: int
) -> None:
    def go_away() -> None:
        s3.kill()
        threading.Event().wait(seconds)
        s3.start()
        threading.Event().wait()  # the server ends with the thread that started it

    at_first_upload(scene, go_away)
    left = scene.train()

    assert left.verdict.outcome == SUCCEEDED, left.verdict
    assert scene.checkpoints() == ALL_STEPS


def test_credentials_that_end_leave_what_there_was_and_are_said(scene: Scene) -> None:
    def end() -> None:
        scene.proxy.add(Rule(EXPIRED))

    at_first_upload(scene, end)
    left = scene.train()

    assert left.verdict.outcome == FAILED
    said = "\n".join([*warnings(left), left.verdict.message])
    assert "ExpiredToken" in said
    assert "access was denied, or the credentials have expired" in said
    assert "renew them and start the run again" in left.verdict.message
    scene.proxy.heal()
    # Its process goes on in this test, and could not say that it had ended.
    RunFolder(scene.storage / "local/digits").attempt(1).write(HEARTBEAT, ENDED)
    again = scene.train()
    assert again.verdict.outcome == SUCCEEDED, again.verdict


def test_a_bucket_that_is_deleted_is_said_with_its_name(
    scene: Scene, s3: S3Server, bucket: str
) -> None:
    held = s3.folder_of(bucket)

    def delete() -> None:
        held.rename(held.with_name(f"{bucket}-gone"))
        # An upload that found the bucket a moment before makes its folder again.
        for _ in range(200):
            shutil.rmtree(held, ignore_errors=True)
            threading.Event().wait(0.01)

    at_first_upload(scene, delete)

    left = scene.train()

    assert left.verdict.outcome == FAILED
    said = "\n".join([*warnings(left), left.verdict.message])
    assert f"s3://{bucket}: no such bucket. Create it" in said
