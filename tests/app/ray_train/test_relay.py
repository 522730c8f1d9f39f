"""What users report to Ray Train reaches the coordinator, and nothing there can end a run."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import ray.train
from ray.train.v2._internal.callbacks.env_callback import _initialize_env_callbacks
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.execution.failure_handling import FailureDecision
from ray.train.v2._internal.execution.training_report import _TrainingReport

from trainshed.checkpoint import pass_counter
from trainshed.coordinator.ray_reports import events_of, reported
from trainshed.coordinator.run_state import Reported
from trainshed.ray_train.report_relay import (
    ENV_COORDINATOR,
    HeldUp,
    NoCleaner,
    ReportRelay,
    ScriptRelay,
    UnreadCheckpoint,
)
from trainshed.storage.arrow_filesystem import as_ray_has_it
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed_api.progress import CheckpointSaved, Evaluated, Event, Progress, WarningEvent

if TYPE_CHECKING:
    from ray.train.v2._internal.execution.context import TrainRunContext
    from ray.train.v2._internal.execution.worker_group import WorkerGroup, WorkerGroupPollStatus
    from ray.train.v2.api.result import Result

    from trainshed.coordinator.actor import Coordinator

OURS = "/runs/1/ray/checkpoint_000000120_epoch0003"
THEIRS = "/runs/1/ray/checkpoint_2026-01-31_12-00-00.000001"


@dataclass
class Told:
    """Stands in for the coordinator: remembers what it is told."""

    reports: list[Reported] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    held: list[tuple[str, float]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    done: Mapping[str, int] = field(default_factory=dict)

    def report(self, report: Reported, events: Sequence[Event]) -> None:
        self.reports.append(report)
        self.events += events

    def hold(self, bucket: str, seconds: float) -> None:
        self.held.append((bucket, seconds))

    def passes(self) -> Mapping[str, int]:
        return self.done

    def begin(self) -> None:
        self.words.append("begin")

    def lose(self, message: str) -> None:
        self.words.append(message)

    def end(self) -> None:
        self.words.append("end")


def make_report(metrics: dict[str, object], checkpoint: str | None = None) -> _TrainingReport:
    """Return rank 0's report as Ray Train's controller hands it to callbacks."""
    kept = ray.train.Checkpoint(checkpoint) if checkpoint else None
    return _TrainingReport(kept, metrics, validation=False)


def relay(
    metrics: dict[str, object], checkpoint: str | None = None, told: Told | None = None
) -> Told:
    """Return what the coordinator is told of one report."""
    told = told or Told()
    report = make_report(metrics, checkpoint)
    ReportRelay(cast("Coordinator", told)).after_report(report, [metrics, {"loss": -1.0}])
    return told


@dataclass(frozen=True)
class Case:
    """A user's report and the events that it becomes, at time 1."""

    metrics: dict[str, object]
    checkpoint: str | None
    want: list[Event]


CASES: dict[str, Case] = {
    "epoch, step and loss are known by their names": Case(
        {"epoch": 2, "step": 40, "loss": 0.5, "lr": 0.1},
        None,
        [Progress(time=1, epoch=2, step=40, loss=0.5, metrics={"loss": 0.5, "lr": 0.1})],
    ),
    "what is not reported stays empty": Case(
        {"loss": 0.5}, None, [Progress(time=1, loss=0.5, metrics={"loss": 0.5})]
    ),
    "held-out metrics are an evaluation": Case(
        {"epoch": 1, "valid.loss": 0.2, "val_accuracy": 0.9, "values": 3},
        None,
        [
            Progress(time=1, epoch=1, metrics={"values": 3.0}),
            Evaluated(time=1, epoch=1, metrics={"valid.loss": 0.2, "val_accuracy": 0.9}),
        ],
    ),
    "an evaluation alone is no progress": Case(
        {"test/accuracy": 0.9}, None, [Evaluated(time=1, metrics={"test/accuracy": 0.9})]
    ),
    "numbers of numpy count, all else does not": Case(
        {"loss": np.float32(0.5), "one": np.array([2.0]), "two": np.zeros(2), "name": "x"},
        None,
        [Progress(time=1, loss=0.5, metrics={"loss": 0.5, "one": 2.0})],
    ),
    "a loss that is no number is shown as none": Case(
        {"loss": math.nan, "epoch": math.inf},
        None,
        [Progress(time=1, loss=math.nan, metrics={"loss": math.nan})],
    ),
    "a step beyond all training is none": Case(
        {"loss": 0.5, "step": 1e30},
        None,
        [Progress(time=1, loss=0.5, metrics={"loss": 0.5})],
    ),
    "a checkpoint without metrics": Case({}, THEIRS, [CheckpointSaved(time=1, path=THEIRS)]),
    "a checkpoint with its epoch": Case(
        {"epoch": 3},
        THEIRS,
        [Progress(time=1, epoch=3), CheckpointSaved(time=1, epoch=3, path=THEIRS)],
    ),
    "nothing at all": Case({}, None, []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_report_becomes_events(case: Case) -> None:
    assert events_of(reported(case.metrics, case.checkpoint), 1.0) == case.want


def test_rank_0_is_heard_and_later_reports_are_added() -> None:
    told = relay({"epoch": 1, "loss": 0.5}, THEIRS)
    relay({"valid.loss": 0.4}, told=told)
    assert told.reports[0] == Reported(1, None, {"loss": 0.5}, (THEIRS, 1, None))
    assert told.reports[0].then(told.reports[1]) == Reported(
        1, None, {"loss": 0.5, "valid.loss": 0.4}, (THEIRS, 1, None)
    )


@pytest.mark.parametrize("metrics", [{}, {"valid.loss": 0.2}], ids=["bare", "with metrics"])
def test_reports_of_the_runtime_are_not_told_twice(metrics: dict[str, object]) -> None:
    assert relay(metrics, OURS).reports == []


def test_passes_behind_a_users_checkpoint_are_kept_beside_it(tmp_path: Path) -> None:
    folder = Disk(tmp_path)
    relay({}, str(folder / "checkpoint_a"), Told(done={"train": 2}))
    relay({}, str(folder / "checkpoint_b"), Told(done={"train": 3}))
    assert pass_counter.read(folder / "checkpoint_a") == {"train": 2}
    assert pass_counter.read(folder / "checkpoint_b") == {"train": 3}
    assert pass_counter.read(folder / "other") == {}


def test_a_checkpoint_is_told_by_the_name_that_users_know_and_its_passes_lie_beside_it(
    place: Folder,
) -> None:
    told, kept = Told(done={"train": 2}), place / "ray" / "checkpoint_a"
    filesystem, path = as_ray_has_it(kept)
    report = _TrainingReport(ray.train.Checkpoint(path, filesystem), {}, validation=False)

    ReportRelay(cast("Coordinator", told), place / "ray").after_report(report, [{}])

    assert [each.checkpoint for each in told.reports] == [(str(kept), None, None)]
    assert pass_counter.read(kept) == {"train": 2}


def test_a_pass_left_early_is_over_when_the_next_begins() -> None:
    counted = pass_counter.Passes({"train": 4})
    assert counted.begin("train") == 4
    assert counted.done == {"train": 4}  # a checkpoint in the middle: the pass begins again
    assert counted.begin("train") == 5
    counted.end("train")
    assert counted.done == {"train": 6}


def test_a_coordinator_that_is_gone_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    told = cast("Coordinator", object())
    ReportRelay(told).after_report(make_report({"loss": 1.0}), [{"loss": 1.0}])
    assert "a report was not passed on" in caplog.text


def find_nobody(name: str, namespace: str) -> None:
    """Do what Ray does when no actor has the name."""
    raise ValueError(f"no actor {name} in {namespace}")


def test_a_script_that_writes_checkpoints_elsewhere_is_warned_once(tmp_path: Path) -> None:
    told = Told()
    relayed = ReportRelay(cast("Coordinator", told), Disk(tmp_path / "attempt"))

    for folder in ("attempt", "elsewhere", "elsewhere"):
        report = make_report({"loss": 1.0}, str(tmp_path / folder / "checkpoint_000001"))
        relayed.after_report(report, [{"loss": 1.0}])

    [warning] = [event for event in told.events if isinstance(event, WarningEvent)]
    assert warning.message.startswith(f"the script writes its checkpoints to {tmp_path}/elsewhere,")
    assert 'storage_path=os.environ["TRAINSHED_STORAGE"]' in warning.message


def test_a_script_without_our_coordinator_trains_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(ENV_COORDINATOR, raising=False)
    monkeypatch.setattr("ray.get_actor", find_nobody)
    script = ScriptRelay()
    script.after_worker_group_training_start(cast("WorkerGroup", None))
    script.after_controller_finish(cast("Result", None))
    assert caplog.text.count("a report was not passed on") == 2


@dataclass(frozen=True)
class Polled:
    """The part of a poll's outcome that is looked at."""

    errors: dict[int, Exception]


def test_a_script_says_when_its_workers_begin_are_lost_and_end() -> None:
    told = Told()
    script = ScriptRelay(cast("Coordinator", told))
    script.after_worker_group_training_start(cast("WorkerGroup", None))
    lost = Polled({1: RuntimeError("\n the worker died \n for a reason"), 3: RuntimeError()})
    script.after_worker_group_poll_status(cast("WorkerGroupPollStatus", lost))
    script.before_controller_execute_failure_decision(FailureDecision.RETRY)
    script.after_worker_group_poll_status(cast("WorkerGroupPollStatus", lost))
    script.before_controller_execute_failure_decision(FailureDecision.RAISE)
    script.after_controller_finish(cast("Result", None))
    assert told.words == ["begin", "lost worker 1, 3: the worker died", "end"]


class Rank:
    """Stands in for Ray Train's context in a worker."""

    def get_world_rank(self) -> int:
        return 0


def test_only_a_transfer_that_training_waits_for_holds_it_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ray.train.get_context", Rank)
    told = Told()
    held_up = HeldUp(cast("Coordinator", told))

    def transfer() -> None:
        with held_up.on_checkpoint_transfer():
            pass

    with held_up.on_report():
        transfer()
        beside = threading.Thread(target=transfer)
        beside.start()
        beside.join()
    transfer()
    [(bucket, seconds)] = told.held
    assert bucket == "checkpointing"
    assert 0 <= seconds < 1


def test_ray_makes_the_callbacks_that_its_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = [ScriptRelay, HeldUp, UnreadCheckpoint, NoCleaner]
    names = [f"{kind.__module__}.{kind.__name__}" for kind in kinds]
    monkeypatch.setenv("RAY_TRAIN_CALLBACKS", ",".join(names))
    made = _initialize_env_callbacks()
    assert [type(callback) for callback in made] == kinds


def test_no_cleaner_leaves_rays_own_hooks_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    for hook in ("after_controller_start", "after_worker_group_start"):
        before = getattr(PlacementGroupCleanerCallback, hook)
        monkeypatch.setattr(PlacementGroupCleanerCallback, hook, before)  # put back afterwards
    NoCleaner().after_controller_start(cast("TrainRunContext", None))
    cleaner = PlacementGroupCleanerCallback()
    cleaner.after_controller_start(cast("TrainRunContext", None))
    assert cleaner._cleaner is None
