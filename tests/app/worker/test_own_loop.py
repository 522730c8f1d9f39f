"""A function with a loop of its own has resumed only where it read the checkpoint."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import ray.train
from pydantic import JsonValue
from ray.train.v2._internal.execution.train_fn_utils import LocalTrainFnUtils, set_train_fn_utils
from typing_extensions import override

from tests.builders import make_run
from tests.builders_run import make_started
from trainshed.checkpoint import ray_snapshot
from trainshed.coordinator.actor import Coordinator
from trainshed.coordinator.run_state import Reported
from trainshed.ray_train.dataset_shards import PassKeeper
from trainshed.ray_train.report_relay import UnreadCheckpoint
from trainshed.storage.disk import Disk
from trainshed.worker.active_run import activate
from trainshed.worker.plain_function import PlainFunction
from trainshed_api.progress import Event, Started, WarningEvent

if TYPE_CHECKING:
    from ray.train.v2.api.reported_checkpoint import ReportedCheckpoint

    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.base_run import BaseRun
    from trainshed.worker.dataset_registry import DatasetRegistry


class Functions(LocalTrainFnUtils):
    """Ray Train's functions for a worker by itself, which has an earlier attempt's checkpoint."""

    def __init__(self, folder: Path) -> None:
        super().__init__(experiment_name="ray")
        self._checkpoint = ray.train.Checkpoint(str(folder / "2" / ray_snapshot.LINKED))

    @override
    def get_checkpoint(self) -> ray.train.Checkpoint:
        return self._checkpoint

    @override
    def get_all_reported_checkpoints(self, *_: object, **__: object) -> list["ReportedCheckpoint"]:
        return []


@pytest.fixture
def resumed(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in which attempt 2 begins with what attempt 1 reported at step 210."""
    earlier = Disk(tmp_path / "1")
    (earlier / "checkpoint_7").write("model.pt", b"weights")
    result = {"checkpoint_dir_name": "checkpoint_7", "metrics": {"epoch": 13, "step": 210}}
    snapshot = {"checkpoint_results": [result], "latest_checkpoint_result": result}
    earlier.write(ray_snapshot.SNAPSHOT, json.dumps(snapshot).encode())
    ray_snapshot.seed(Disk(tmp_path / "2"), earlier / "checkpoint_7")
    set_train_fn_utils(Functions(tmp_path))
    yield tmp_path
    activate(None)
    set_train_fn_utils(None)


class Attempt:
    """Attempt 2 as one of its workers sees it; it has said that it resumes."""

    def __init__(self, folder: Path, rank: int = 0, **spec: JsonValue) -> None:
        checkpoint = Disk(folder / "1") / "checkpoint_7"
        job = SimpleNamespace(
            users_resume=checkpoint,
            checkpoints=Disk(folder / "2"),
            spec=make_run(**spec).spec,
        )
        self.coordinator = Coordinator(0.0)
        reported = ray_snapshot.reported_at(checkpoint)
        started = make_started(2).model_copy(update={"resumed_from": reported.resume_point})
        self.coordinator.report(reported, [started])
        self.coordinator.look()
        self.told: list[Event] = []
        client = self.coordinator
        self.plain_function = PlainFunction(
            cast("AttemptConfig", job),
            client,
            cast("DatasetRegistry", SimpleNamespace(rank=rank, group=1)),
            lambda message: self.told.append(WarningEvent(time=0.0, message=message)),
        )
        self._keeper = PassKeeper(client)
        run = SimpleNamespace(rank=rank, plain_function=self.plain_function)
        activate(cast("BaseRun", run))

    def report(self) -> None:
        """Report as Ray Train has a function do it."""
        with self._keeper.on_report():
            pass

    @property
    def reported(self) -> Reported:
        """Return what the coordinator knows."""
        view = self.coordinator.look()
        self.told.extend(view.events)
        return view.reported


def test_a_function_that_reports_before_it_reads_its_checkpoint_did_not_resume(
    resumed: Path,
) -> None:
    attempt = Attempt(resumed)
    assert attempt.reported.step == 210
    attempt.report()

    assert attempt.reported == Reported()
    warning, started = attempt.told
    assert isinstance(warning, WarningEvent)
    assert "checkpoint_7" in warning.message
    assert "ray.train.get_checkpoint()" in warning.message
    assert isinstance(started, Started)
    assert started == make_started(2)


def test_what_a_function_reports_and_reads_later_stays(resumed: Path) -> None:
    attempt = Attempt(resumed)
    attempt.report()
    attempt.coordinator.report(Reported(step=15), [])
    ray.train.get_checkpoint()
    attempt.report()
    attempt.plain_function.finish(took_batches=False)

    assert attempt.reported == Reported(step=15)
    assert len(attempt.told) == 2


READS: dict[str, Callable[[], object]] = {
    "the checkpoint": ray.train.get_checkpoint,
    "all checkpoints": ray.train.get_all_reported_checkpoints,
}


@pytest.mark.parametrize("what", READS)
def test_a_function_that_read_its_checkpoint_has_resumed(what: str, resumed: Path) -> None:
    attempt = Attempt(resumed)
    READS[what]()
    attempt.report()
    attempt.plain_function.finish(took_batches=False)

    assert attempt.reported.step == 210
    assert attempt.told == []


def test_a_function_that_returns_without_a_report_did_not_resume(resumed: Path) -> None:
    attempt = Attempt(resumed)
    attempt.plain_function.finish(took_batches=False)

    assert attempt.reported == Reported()
    assert [type(event) for event in attempt.told] == [WarningEvent, Started]


@pytest.mark.parametrize("what", [None, *READS])
def test_a_script_has_resumed_only_where_it_read_its_checkpoint(
    what: str | None, resumed: Path
) -> None:
    attempt = Attempt(resumed)
    callback = UnreadCheckpoint(attempt.coordinator)
    callback.after_init_train_context()
    if what:
        READS[what]()
    for _ in range(2):
        with callback.on_report():
            pass

    assert (attempt.reported.step == 210) == bool(what)
    assert [type(event) for event in attempt.told] == ([] if what else [WarningEvent, Started])


def test_a_script_without_an_earlier_checkpoint_has_none_to_read() -> None:
    set_train_fn_utils(LocalTrainFnUtils(experiment_name="ray"))
    coordinator = Coordinator(0.0)
    callback = UnreadCheckpoint(coordinator)
    try:
        callback.after_init_train_context()
        with callback.on_report():
            coordinator.report(Reported(step=7), [])
        with callback.on_report():
            pass
    finally:
        set_train_fn_utils(None)

    assert coordinator.look().reported == Reported(step=7)


def test_the_first_worker_may_read_for_all(resumed: Path) -> None:
    attempt = Attempt(resumed, rank=1)
    attempt.report()
    attempt.plain_function.finish(took_batches=False)

    assert attempt.reported.step == 210
    assert attempt.told == []


@pytest.mark.parametrize("took_batches", [True, False])
def test_a_function_that_asks_for_the_run_needs_its_batches_to_obey_all_fields(
    took_batches: bool, resumed: Path
) -> None:
    attempt = Attempt(resumed, batchSize=32)
    ray.train.get_checkpoint()
    attempt.plain_function.asked_for_run = True
    attempt.plain_function.finish(took_batches=took_batches)

    said = [event.message for event in attempt.told if isinstance(event, WarningEvent)]
    assert len(said) == (0 if took_batches else 1)
    assert all(message.endswith("spec.batchSize had no effect") for message in said)
