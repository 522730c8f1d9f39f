"""What Ray Train starts beside a run comes later, and nothing that it would tell is lost."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
import ray.train
from ray.train.v2._internal.callbacks import state_manager
from ray.train.v2._internal.callbacks.preemption_callback import PreemptionCallback
from ray.train.v2._internal.callbacks.state_manager import StateManagerCallback
from ray.train.v2._internal.state.schema import RunStatus, TrainRun
from ray.train.v2.api.config import RunConfig, ScalingConfig

from trainshed.ray_train import deferred_start
from trainshed.ray_train.deferred_start import DeferredDrainWatcher, DeferredStateManager

if TYPE_CHECKING:
    from ray.train.v2._internal.execution.worker_group import WorkerGroup


@dataclass
class Method:
    """Stands in for a method of an actor."""

    given: list[RunStatus]

    def remote(self, run: TrainRun) -> None:
        self.given.append(run.status)


@dataclass
class StateActor:
    """Stands in for what keeps the runs for the dashboard: remembers their states."""

    states: list[RunStatus] = field(default_factory=list)
    starts: int = 0
    waits: int = 0

    @property
    def create_or_update_train_run(self) -> Method:
        return Method(self.states)


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> StateActor:
    made = StateActor()

    def start() -> StateActor:
        made.starts += 1
        return made

    def wait(_: object) -> None:
        made.waits += 1

    monkeypatch.setattr(deferred_start, "get_or_create_state_actor", start)
    monkeypatch.setattr(ray, "get", wait)
    return made


def make_manager() -> DeferredStateManager:
    """Return one that knows of a run."""
    manager = DeferredStateManager()
    manager.create_train_run(
        id="run",
        name="digits",
        job_id="1",
        controller_actor_id="2",
        controller_log_file_path="",
        run_config=RunConfig(name="digits", storage_path="/runs"),
        train_loop_config=None,
        scaling_config=ScalingConfig(num_workers=2),
        backend_config=ray.train.BackendConfig(),
        datasets={},
        dataset_config=ray.train.DataConfig(),
    )
    return manager


def test_the_dashboard_hears_the_last_state_when_it_is_time_and_each_one_after(
    actor: StateActor,
) -> None:
    manager = make_manager()
    manager.update_train_run_scheduling("run")
    assert actor == StateActor(), "nobody was started"

    manager.begin()
    manager.begin()
    manager.update_train_run_running("run")

    assert actor == StateActor([RunStatus.SCHEDULING, RunStatus.RUNNING], starts=1)


def test_a_run_that_is_over_before_is_told_and_waited_for(actor: StateActor) -> None:
    manager = make_manager()

    manager.update_train_run_finished("run")

    assert actor.starts == 1
    assert set(actor.states) == {RunStatus.FINISHED}
    assert actor.waits == 1


def test_a_run_that_fails_before_is_told_and_nobody_waits(actor: StateActor) -> None:
    manager = make_manager()

    manager.update_train_run_errored("run", "it raised")

    assert actor.starts == 1
    assert set(actor.states) == {RunStatus.ERRORED}
    assert actor.waits == 0


def test_workers_that_are_lost_before_start_nobody(actor: StateActor) -> None:
    manager = make_manager()
    manager.create_train_run_attempt(
        run_id="run", attempt_id="first", num_workers=2, resources_per_worker={"CPU": 1.0}
    )

    manager.update_train_run_attempt_errored("run", "first", "a worker was lost")

    assert actor == StateActor()


def test_drained_nodes_are_looked_for_later_and_for_the_last_workers_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched: list[object] = []
    monkeypatch.setattr(deferred_start, "SECONDS_LATER", 0.05)
    monkeypatch.setattr(
        PreemptionCallback, "after_worker_group_start", lambda _, workers: watched.append(workers)
    )

    async def start_twice() -> None:
        watcher = DeferredDrainWatcher()
        watcher.after_worker_group_start(cast("WorkerGroup", "lost"))
        watcher.after_worker_group_start(cast("WorkerGroup", "new"))
        assert watched == []
        await asyncio.sleep(0.2)
        watcher.before_worker_group_shutdown(cast("WorkerGroup", "new"))

    asyncio.run(start_twice())

    assert watched == ["new"]


def test_ray_train_makes_its_state_manager_where_it_is_replaced() -> None:
    names = StateManagerCallback.after_controller_start.__code__.co_names

    assert "TrainStateManager" in names
    assert hasattr(state_manager, "TrainStateManager")
