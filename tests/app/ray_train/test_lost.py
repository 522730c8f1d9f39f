"""New workers do not wait for those that are lost."""

import inspect
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from ray.train.v2._internal.execution.worker_group import state
from ray.train.v2._internal.execution.worker_group.poll import WorkerGroupPollStatus, WorkerStatus
from ray.train.v2._internal.execution.worker_group.worker import ActorMetadata, RayTrainWorker

from trainshed.ray_train.lost_workers import (
    SECONDS_TO_LEAVE,
    FunctionByValue,
    SkipLostWorkers,
    TellHosts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ray.train.v2._internal.execution.worker_group import WorkerGroup, WorkerGroupContext

    from trainshed.coordinator.actor import Coordinator

RAYS_OWN = state._shutdown_workers


@pytest.fixture(autouse=True)
def rays_own_shutdown() -> "Iterator[None]":
    yield
    state._shutdown_workers = RAYS_OWN


def make_status(error: Exception | None) -> WorkerGroupPollStatus:
    """Return what a look at two workers saw, of which the second may have failed."""
    well, other = (WorkerStatus(running=True, error=found) for found in (None, error))
    return WorkerGroupPollStatus({0: well, 1: other}, {})


def test_lost_workers_are_not_waited_for() -> None:
    callback = SkipLostWorkers()

    callback.after_worker_group_poll_status(make_status(RuntimeError("health check failed")))

    ends = state._shutdown_workers
    assert isinstance(ends, partial)
    assert ends.func is RAYS_OWN
    assert ends.keywords == {"patience_s": SECONDS_TO_LEAVE}


def test_the_next_workers_have_their_time_again() -> None:
    callback = SkipLostWorkers()
    callback.after_worker_group_poll_status(make_status(RuntimeError("health check failed")))

    callback.after_worker_group_shutdown(cast("WorkerGroupContext", None))

    assert state._shutdown_workers is RAYS_OWN


def test_workers_that_are_well_have_their_time() -> None:
    SkipLostWorkers().after_worker_group_poll_status(make_status(None))

    assert state._shutdown_workers is RAYS_OWN


def test_the_hosts_of_a_group_are_told_each_once() -> None:
    told: list[list[str]] = []
    workers = [
        SimpleNamespace(metadata=ActorMetadata(host, "n", "ip", 1, {})) for host in ("b", "a", "b")
    ]
    group = SimpleNamespace(get_workers=lambda: workers)

    TellHosts(cast("Coordinator", SimpleNamespace(place=told.append))).after_worker_group_start(
        cast("WorkerGroup", group)
    )

    assert told == [["a", "b"]]


def test_a_function_travels_by_value_with_what_it_holds() -> None:
    colour = "green"

    sent = FunctionByValue.of(lambda: print(colour, end=""))

    assert isinstance(sent.payload, bytes)
    assert sent.get().__closure__[0].cell_contents == "green"  # type: ignore[index]


def test_ray_train_has_the_seams() -> None:
    assert "patience_s" in inspect.signature(RAYS_OWN).parameters
    assert "_shutdown_workers" in state.WorkerGroupState.shutdown.__code__.co_names
    run = inspect.unwrap(RayTrainWorker.run_train_fn)
    assert list(inspect.signature(run).parameters) == ["self", "train_fn_ref"]
    assert "get" in run.__code__.co_names
