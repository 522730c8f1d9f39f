"""The seams in Ray Train 2.60 that the run stands on."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import ray.exceptions
from ray import cloudpickle
from ray.exceptions import RayTaskError
from ray.train.v2._internal import constants
from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.callbacks.state_manager import StateManagerCallback
from ray.train.v2._internal.execution.failure_handling import FailureDecision
from ray.train.v2._internal.execution.worker_group import WorkerGroup
from ray.train.v2._internal.util import construct_user_exception_with_traceback
from ray.train.v2.api.config import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.exceptions import WorkerGroupError

from trainshed.failures import InfrastructureError
from trainshed.ray_train.dataset_shards import Shards
from trainshed.ray_train.deferred_start import DeferredDrainWatcher, DeferredStateExport
from trainshed.ray_train.gloo import GlooConfig
from trainshed.ray_train.lost_workers import FunctionByValue, RestartPolicy, SkipLostWorkers
from trainshed.ray_train.trainer import FOR_THE_CONTROLLER, PlainEnvironment, Trainer
from trainshed.storage.disk import Disk
from trainshed.worker.user_failure import UserFailureError

if TYPE_CHECKING:
    from ray.train.v2._internal.execution.worker_group import WorkerGroupContext

    from trainshed.coordinator.actor import Coordinator

ROOT = Path(__file__).parents[3]


class Told:
    """Stands in for the coordinator: remembers what was lost, and what it was to train."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        self.fits: list[tuple[Mapping[str, object], Mapping[str, str]]] = []

    def fit(self, arguments: Mapping[str, object], environment: Mapping[str, str]) -> None:
        """Remember."""
        self.fits.append((arguments, environment))

    def lose(self, message: str) -> None:
        """Remember."""
        self.lost.append(message)


class Reference:
    """Stands in for Ray Train's reference to a function in its object store."""

    def get(self) -> Callable[[], None]:
        """Return the function."""
        return print


def make_policy(max_failures: int) -> tuple[RestartPolicy, Told]:
    """Return a policy and whom it tells."""
    told = Told()
    policy = RestartPolicy(FailureConfig(max_failures=max_failures), cast("Coordinator", told))
    return policy, told


def make_error(failures: dict[int, Exception]) -> WorkerGroupError:
    """Return what Ray Train's controller hands to a failure policy."""
    return WorkerGroupError("workers failed", failures)


def test_what_the_users_function_raised_is_never_tried_again() -> None:
    policy, told = make_policy(max_failures=10)
    error = make_error(
        {0: UserFailureError("ValueError: no"), 1: InfrastructureError("gone", "peer")}
    )
    assert policy.make_decision(error) == FailureDecision.RAISE
    assert told.lost == []


def as_ray_hands_it_over(error: Exception) -> Exception:
    """Return a worker's error as it arrives at the controller: in a type made for the occasion."""
    made: Any = RayTaskError  # whose arguments Ray has left without types
    wrapped = made("run", "Traceback (most recent call last):\n", error).as_instanceof_cause()
    arrived: Exception = cloudpickle.loads(cloudpickle.dumps(wrapped))  # type: ignore[no-untyped-call]
    return arrived


def test_whose_error_it_was_survives_the_way_through_ray() -> None:
    policy, told = make_policy(max_failures=10)
    left_behind = as_ray_hands_it_over(InfrastructureError("gone", "peer"))
    lost = make_error({0: left_behind, 1: ray.exceptions.RayActorError()})
    assert policy.make_decision(lost) == FailureDecision.RETRY
    assert [message.partition(":")[0] for message in told.lost] == ["lost worker 1"]

    users = make_error({1: as_ray_hands_it_over(UserFailureError("KeyError: 'lable'"))})
    assert policy.make_decision(users) == FailureDecision.RAISE
    assert len(told.lost) == 1


def test_a_lost_worker_is_retried_until_the_budget_is_spent() -> None:
    policy, told = make_policy(max_failures=2)
    error = make_error({1: ray.exceptions.RayActorError(), 0: InfrastructureError("gone", "peer")})
    decisions = [policy.make_decision(error) for _ in range(3)]
    assert decisions == [FailureDecision.RETRY, FailureDecision.RETRY, FailureDecision.RAISE]
    assert len(told.lost) == 2
    assert told.lost[0].startswith("lost worker 1:")


BUDGETS: dict[str, tuple[Exception, int]] = {
    "storage": (InfrastructureError("OSError: [Errno 5] Input/output error", "storage"), 10),
    "a broken GPU": (InfrastructureError("AcceleratorError: CUDA error: uncorrectable", "gpu"), 2),
    "a collective time-out": (InfrastructureError("RuntimeError: gloo: Timed out", "timeout"), 1),
    "an environment that cannot be made": (ray.exceptions.RuntimeEnvSetupError("no pip"), 0),
}


@pytest.mark.parametrize("case", BUDGETS)
def test_workers_start_again_as_often_as_helps_against_the_fault(case: str) -> None:
    error, want = BUDGETS[case]
    policy, told = make_policy(max_failures=10)
    group = make_error({0: as_ray_hands_it_over(error), 1: InfrastructureError("gone", "peer")})
    while policy.make_decision(group) == FailureDecision.RETRY:
        pass

    assert len(told.lost) == want
    assert all(line.startswith("lost worker 0: ") for line in told.lost)


def test_what_the_world_did_to_a_worker_is_told_in_its_words() -> None:
    policy, told = make_policy(max_failures=10)
    error = InfrastructureError("OSError: [Errno 116] Stale file handle: '/data/a'", "storage")
    for handed in (error, construct_user_exception_with_traceback(error)):
        policy.make_decision(make_error({2: handed}))

    want = "lost worker 2: the storage failed: OSError: [Errno 116] Stale file handle: '/data/a'"
    assert told.lost == [want, want]


def make_trainer(folder: Path, told: Told | None = None) -> Trainer:
    """Return one for two workers that print."""
    return Trainer(
        cast("Coordinator", told or Told()),
        Disk(folder / "ray"),
        train_loop_per_worker=print,
        backend_config=GlooConfig(),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="ray", storage_path=str(folder)),
    )


@pytest.fixture(params=[True, False], ids=["in a cluster", "on one machine"])
def inside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Say whether this process takes itself for one inside a Ray cluster."""
    if request.param:
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    else:
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return bool(request.param)


def test_only_the_callbacks_that_are_of_use_are_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, inside: bool
) -> None:
    monkeypatch.setenv("RAY_TRAIN_ENABLE_STATE_TRACKING", "1")
    trainer = make_trainer(tmp_path)
    kinds = {type(callback) for callback in trainer._create_default_callbacks()}
    assert DatasetsCallback not in kinds
    assert Shards in kinds
    assert PlacementGroupCleanerCallback not in kinds
    assert StateManagerCallback not in kinds
    assert (DeferredDrainWatcher in kinds) == inside
    assert DeferredStateExport in kinds
    assert SkipLostWorkers in kinds
    assert PlainEnvironment in kinds


def test_the_coordinator_trains_with_the_function_itself_and_no_reference_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(constants.ENABLE_PREEMPTION_WATCHER_ENV_VAR, "1")
    monkeypatch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")
    told = Told()

    make_trainer(tmp_path, told)._initialize_and_run_controller(train_fn_ref=Reference())

    [(arguments, environment)] = told.fits
    assert arguments["train_fn_ref"] == FunctionByValue.of(print)
    assert environment["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] == "0.2"
    assert environment[constants.ENABLE_PREEMPTION_WATCHER_ENV_VAR] == "0"


def test_workers_are_told_no_settings_but_what_they_read_and_do_not_inherit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, inside: bool
) -> None:
    monkeypatch.setattr(constants, "ENV_VARS_TO_PROPAGATE", {*constants.ENV_VARS_TO_PROPAGATE})
    callbacks = make_trainer(tmp_path)._create_default_callbacks()
    for name in (*FOR_THE_CONTROLLER, constants.COLLECTIVE_TIMEOUT_S_ENV_VAR):
        monkeypatch.setenv(name, "1")
    assert constants.get_env_vars_to_propagate().keys() >= FOR_THE_CONTROLLER

    [plain] = [callback for callback in callbacks if isinstance(callback, PlainEnvironment)]
    plain.before_worker_group_start(cast("WorkerGroupContext", None))

    told = WorkerGroup._get_worker_runtime_env({})
    theirs = {constants.COLLECTIVE_TIMEOUT_S_ENV_VAR: "1"} if inside else {}
    assert told == {"env_vars": theirs}


def test_what_ray_trains_controller_imports_of_ours_leaves_torch_out() -> None:
    modules = (
        "trainshed.ray_compat.train_controller",
        "trainshed.coordinator.actor",
        "trainshed.ray_train.lost_workers",
        "trainshed.ray_train.gloo",
        "trainshed.ray_train.report_relay",
        "trainshed.ray_train.dataset_shards",
        "trainshed.ray_train.trainer",
    )
    script = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    path = f"{ROOT / 'api'}:{ROOT / 'app'}"
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": path}, check=False)
    assert done.returncode == 0
