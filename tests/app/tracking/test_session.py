"""A tracker gets each step once, and costs a run a warning at most."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.app.tracking.event_files import read_scalars, read_tables
from tests.builders_run import make_evaluated, make_progress, make_started
from tests.s3 import S3Server
from trainshed.storage.addresses import open_folder
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.tracking import session
from trainshed.tracking.on_tensorboard import TensorBoard
from trainshed.tracking.session import Tracking, trackers_of
from trainshed.tracking.tracker import SECONDS_TO_END, Point, TrackedRun, Tracker
from trainshed_api.names import FAILED, SUCCEEDED, Outcome
from trainshed_api.tracking import TrackingSpec


class FakeTracker:
    """A tracker that keeps one run for all attempts, as a server does; it may be down or slow."""

    name = "Server"

    def __init__(self) -> None:
        self.points: list[tuple[str, int, float]] = []
        self.facts: dict[str, str] = {}
        self.runs: list[str] = []
        self.is_down = False
        self.answers = threading.Event()
        self.answers.set()

    def begin(self, run: TrackedRun) -> Mapping[str, int]:
        """Return the last steps that it has."""
        self._answer()
        self.runs.append(run.id)
        return {name: step for name, step, _ in self.points}

    def log(self, points: Sequence[Point]) -> None:
        """Keep them."""
        self._answer()
        self.points += [(n, point.step, v) for point in points for n, v in point.values.items()]

    def end(self, outcome: Outcome, facts: Mapping[str, str]) -> None:
        """Keep it."""
        self._answer()
        self.facts = {"outcome": outcome, **facts}

    def _answer(self) -> None:
        assert self.answers.wait(30)
        if self.is_down:
            raise ConnectionRefusedError("nobody listens")


def make_run(folder: Folder, attempt: int = 1) -> TrackedRun:
    return TrackedRun("digits-1-abc", "digits", folder, 1, attempt, {"config.rate": 0.1}, {})


def track(
    tracker: Tracker, folder: Folder, attempt: int, steps: Sequence[int], resumed: int | None = None
) -> Tracking:
    """Track an attempt that is killed after some steps."""
    tracking = Tracking([tracker], make_run(folder, attempt), seconds_between_tries=0.01)
    tracking.show(make_started(attempt, resumed_step=resumed))
    for step in steps:
        loss = 1 / step + attempt
        tracking.show(make_progress(step, loss=loss, metrics={"loss": loss}))
    return tracking


def end(tracking: Tracking) -> list[str]:
    tracking.end(SUCCEEDED, {"report": "report.html"})
    return list(tracking.warnings())


def steps_of(server: FakeTracker, name: str = "loss") -> list[int]:
    return [step for metric, step, _ in server.points if metric == name]


def wait_for(server: FakeTracker, count: int) -> None:
    while len(steps_of(server)) < count:
        time.sleep(0.01)


def test_a_run_that_was_killed_twice_is_one_run_with_each_step_once() -> None:
    server, folder = FakeTracker(), Disk(Path("unused"))
    track(server, folder, 1, range(1, 8))
    wait_for(server, 7)
    track(server, folder, 2, range(5, 11), resumed=4)
    wait_for(server, 10)
    warnings = end(track(server, folder, 3, range(9, 13), resumed=8))

    assert steps_of(server) == [*range(1, 13)]
    assert set(server.runs) == {"digits-1-abc"}
    assert server.facts == {"outcome": SUCCEEDED, "report": "report.html"}
    assert warnings == []


def test_steps_trained_again_after_a_lost_worker_are_logged_once() -> None:
    server = FakeTracker()
    tracking = track(server, Disk(Path("unused")), 1, [1, 2, 3])
    tracking.show(make_started(1, resumed_step=1))
    for step in (2, 3, 4):
        tracking.show(make_progress(step))
    end(tracking)

    assert steps_of(server) == [1, 2, 3, 4]
    assert server.runs == ["digits-1-abc"]


def test_evaluation_at_a_logged_step_is_logged() -> None:
    server = FakeTracker()
    tracking = track(server, Disk(Path("unused")), 1, [1, 135])
    tracking.show(make_evaluated(135, {"valid.accuracy": 0.9, "valid.top@5": None}))
    end(tracking)

    assert ("valid.accuracy", 135, 0.9) in server.points


def test_names_have_the_letters_that_every_tracker_accepts() -> None:
    server = FakeTracker()
    tracking = track(server, Disk(Path("unused")), 1, [])
    tracking.show(make_evaluated(1, {"top@5": 0.9}))
    end(tracking)

    assert ("top_5", 1, 0.9) in server.points


def test_reports_without_steps_are_counted() -> None:
    server = FakeTracker()
    tracking = track(server, Disk(Path("unused")), 1, [])
    for _ in range(3):
        tracking.show(make_progress(None, epoch=None))
    end(tracking)

    assert steps_of(server) == [0, 1, 2]


def test_a_tracker_that_was_down_gets_all_steps_later_for_one_warning() -> None:
    server = FakeTracker()
    server.is_down = True
    tracking = track(server, Disk(Path("unused")), 1, [1, 2])
    while not (warned := list(tracking.warnings())):
        time.sleep(0.01)
    server.is_down = False
    tracking.show(make_progress(3))

    assert end(tracking) == []
    assert steps_of(server) == [1, 2, 3]
    assert warned == [
        "spec.tracking: Server: ConnectionRefusedError: nobody listens. Training continues, and "
        "the metrics are sent again"
    ]


def test_a_tracker_that_stays_down_holds_up_neither_a_step_nor_the_end() -> None:
    server = FakeTracker()
    server.is_down = True
    tracking = track(server, Disk(Path("unused")), 1, [1, 2])
    began = time.monotonic()

    warned = end(tracking)

    assert time.monotonic() - began < SECONDS_TO_END
    assert len(warned) == 2
    assert warned[1] == "spec.tracking: Server misses the metrics of 2 steps"


def test_a_slow_tracker_holds_up_no_step_and_the_end_for_its_grace_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "SECONDS_TO_END", 0.1)
    monkeypatch.setattr(session, "MOST_WAITING", 50)
    server = FakeTracker()
    server.answers.clear()
    tracking = track(server, Disk(Path("unused")), 1, range(1, 200))

    warned = end(tracking)
    server.answers.set()

    assert warned[0] == "spec.tracking: Server: did not take the last metrics in time"
    assert len(warned) == 2


def test_a_stopped_run_waits_no_longer_than_its_grace_period() -> None:
    server = FakeTracker()
    server.answers.clear()
    tracking = track(server, Disk(Path("unused")), 1, [1])
    began = time.monotonic()

    tracking.end(FAILED, {}, until=began)
    server.answers.set()

    assert time.monotonic() - began < SECONDS_TO_END / 2


def test_tensorboard_shows_the_attempts_of_a_run_as_one(tmp_path: Path) -> None:
    folder = Disk(tmp_path)
    shown = folder.path / "tensorboard" / "1"
    track_to_files(folder, 1, range(1, 8))
    track_to_files(folder, 2, range(5, 11), resumed=4)
    end(track(TensorBoard(), folder, 3, range(9, 13), resumed=8))

    scalars = read_scalars(shown)
    assert [step for step, _ in scalars["loss"]] == [*range(1, 13)]
    # Of the steps that were trained twice the values of the later attempt.
    assert [int(value) for _, value in scalars["loss"]] == [2, *[1] * 3, *[2] * 4, *[3] * 4]
    tables = read_tables(shown)
    assert "| config.rate | 0.1 |" in tables["parameters"]
    assert "| report | report.html |" in tables["result"]


def track_to_files(folder: Disk, attempt: int, steps: range, resumed: int | None = None) -> None:
    """Track an attempt to event files until its last step is in them."""
    track(TensorBoard(), folder, attempt, steps, resumed)
    shown = folder.path / "tensorboard" / "1"
    while not shown.exists() or not any(
        step == steps[-1] and int(value) >= attempt
        for step, value in read_scalars(shown).get("loss", [])
    ):
        time.sleep(0.01)


def test_a_run_that_began_anew_has_a_folder_of_its_own(tmp_path: Path) -> None:
    tracking = Tracking([TensorBoard()], TrackedRun("id", "digits", Disk(tmp_path), 3, 3, {}))
    tracking.show(make_started(3))
    end(tracking)

    assert [folder.name for folder in (tmp_path / "tensorboard").iterdir()] == ["3"]


def test_only_the_trackers_of_a_spec_are_made() -> None:
    assert list(trackers_of(TrackingSpec())) == []
    made = trackers_of(TrackingSpec.model_validate({"tensorboard": {}}))
    assert [tracker.name for tracker in made] == ["TensorBoard"]


@pytest.mark.s3
def test_event_files_in_a_bucket_are_there_at_the_end(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    folder = open_folder(f"s3://{bucket}/runs/digits")
    end(track(TensorBoard(), folder, 1, range(1, 4)))

    scalars = read_scalars(s3.folder_of(bucket) / "runs" / "digits" / "tensorboard" / "1")
    assert [step for step, _ in scalars["loss"]] == [1, 2, 3]
