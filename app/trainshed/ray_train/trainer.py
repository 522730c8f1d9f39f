"""Ray Train for one job, with seams replaced: who is retried, what a shard is, fewer processes.

The seams are private to Ray 2.60, the pinned release; tests/app/ray_train/test_trainer.py holds
them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ray.train.v2._internal import constants
from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.callbacks.state_manager import StateManagerCallback
from ray.train.v2._internal.execution.callback import WorkerGroupCallback
from ray.train.v2.api.config import FailureConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from trainshed.ray_train.dataset_shards import PassKeeper, Shards
from trainshed.ray_train.deferred_start import DeferredDrainWatcher, DeferredStateExport
from trainshed.ray_train.lost_workers import (
    FunctionByValue,
    RestartPolicy,
    SkipLostWorkers,
    TellHosts,
)
from trainshed.ray_train.ray_cluster import in_cluster
from trainshed.ray_train.report_relay import HeldUp, QuietController, ReportRelay

if TYPE_CHECKING:
    from collections.abc import Set

    from ray.train import Result
    from ray.train.v2._internal.execution.worker_group import WorkerGroupContext
    from ray.train.v2.api.callback import RayTrainCallback

    from trainshed.coordinator.actor import Coordinator
    from trainshed.storage.folder import Folder


# Of the settings that Ray Train hands to its workers, those that only its controller reads.
FOR_THE_CONTROLLER = {
    constants.ENABLE_PREEMPTION_WATCHER_ENV_VAR,
    constants.HEALTH_CHECK_INTERVAL_S_ENV_VAR,
    constants.WORKER_GROUP_START_TIMEOUT_S_ENV_VAR,
}


@dataclass(eq=False)
class PlainEnvironment(WorkerGroupCallback):
    """Starts workers without a separate runtime environment.

    Ray Train hands its settings to workers as one. A process for it starts Python and imports Ray
    twice, a second of a core, and none that Ray keeps ready is used.

    Args:
        settings: that are handed over all the same, where somebody has set them.
    """

    settings: Set[str]

    def before_worker_group_start(
        self,
        worker_group_context: WorkerGroupContext,  # noqa: ARG002 - Ray's signature
    ) -> None:
        """Let no more than that be handed over."""
        constants.ENV_VARS_TO_PROPAGATE = set(self.settings)


class Trainer(DataParallelTrainer):
    """Ray Train's trainer for one job."""

    def __init__(self, coordinator: Coordinator, checkpoints: Folder, **arguments: Any) -> None:
        self._coordinator = coordinator
        self._checkpoints = checkpoints
        super().__init__(**arguments)

    def _create_default_callbacks(self) -> list[RayTrainCallback]:
        # Ray's own callback starts an actor for datasets even when there are none. The cleaner, one
        # more actor, gives back what a controller held that died while its driver goes on: our
        # driver ends with it, and Ray gives back what a job held.
        unwanted = (DatasetsCallback, PlacementGroupCleanerCallback, StateManagerCallback)
        ours: list[RayTrainCallback] = [
            Shards(),
            PassKeeper(self._coordinator),
            ReportRelay(self._coordinator, self._checkpoints),
            HeldUp(self._coordinator),
            SkipLostWorkers(),
            TellHosts(self._coordinator),
            QuietController(),
            # On one machine workers inherit what this process has, which started Ray.
            PlainEnvironment(
                constants.ENV_VARS_TO_PROPAGATE - FOR_THE_CONTROLLER if in_cluster() else set()
            ),
        ]
        theirs = super()._create_default_callbacks()
        if any(isinstance(callback, StateManagerCallback) for callback in theirs):
            ours.append(DeferredStateExport({}))
        if in_cluster() and os.environ.get(constants.ENABLE_PREEMPTION_WATCHER_ENV_VAR, "1") == "1":
            ours.append(DeferredDrainWatcher())
        return [*(callback for callback in theirs if not isinstance(callback, unwanted)), *ours]

    def _initialize_and_run_controller(self, **arguments: Any) -> Result:
        config = self.run_config.failure_config
        assert isinstance(config, FailureConfig)
        arguments["failure_policy"] = RestartPolicy(config, self._coordinator)
        arguments["train_fn_ref"] = FunctionByValue.of(arguments["train_fn_ref"].get())
        environment = constants.get_env_vars_to_propagate()
        # Read by Ray Train's controller, which would start another one.
        environment[constants.ENABLE_PREEMPTION_WATCHER_ENV_VAR] = "0"
        return self._coordinator.fit(arguments, environment)
