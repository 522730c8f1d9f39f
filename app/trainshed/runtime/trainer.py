"""Ray's TorchTrainer with three seams replaced: who is retried, what a dataset shard is, one actor less.

The seams are private to Ray 2.60 (the pinned release); tests/app/runtime/test_trainer.py holds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.execution.callback import WorkerGroupCallback
from ray.train.v2._internal.execution.failure_handling import FailureDecision
from ray.train.v2._internal.execution.failure_handling.default import DefaultFailurePolicy
from ray.train.v2.api.config import FailureConfig
from ray.train.v2.torch.torch_trainer import TorchTrainer

from trainshed.data.shard import PlannedShard
from trainshed.ray_cluster import in_cluster
from trainshed.runtime.relay import first_line
from trainshed.runtime.worker import UserFailureError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ray.data import DataIterator
    from ray.train.v2._internal.data_integration.interfaces import DatasetShardMetadata
    from ray.train.v2._internal.execution.worker_group.worker import Worker as TrainWorker
    from ray.train.v2.api.callback import RayTrainCallback
    from ray.train.v2.api.exceptions import TrainingFailedError
    from ray.train.v2.api.result import Result

    from trainshed.runtime.client import Client
    from trainshed.runtime.job import Job


class UsersErrorsAreFinal(DefaultFailurePolicy):
    """Retries lost workers, never what the user's function raised: it would only raise again."""

    def __init__(self, failure_config: FailureConfig, coordinator: Client) -> None:
        super().__init__(failure_config)
        self._coordinator = coordinator

    def make_decision(self, training_failed_error: TrainingFailedError) -> FailureDecision:
        """Return RAISE for an error of the user's, Ray's own decision for all else."""
        failures: Mapping[int, BaseException] = getattr(
            training_failed_error, "worker_failures", {}
        )
        if any(is_users_failure(error) for error in failures.values()):
            return FailureDecision.RAISE
        decision = super().make_decision(training_failed_error)
        if decision == FailureDecision.RETRY and failures:
            ranks = ", ".join(str(rank) for rank in sorted(failures))
            message = f"lost worker {ranks}: {first_line(next(iter(failures.values())))}"
            self._coordinator.lose(message)
        return decision


def is_users_failure(error: BaseException) -> bool:
    """Say whether a worker's failure is what the user's function raised."""
    return UserFailureError.__name__ in f"{type(error).__name__} {error}"


class Shards(WorkerGroupCallback):
    """Hands `ray.train.get_dataset_shard` shards that the coordinator feeds."""

    def __init__(self, job: Job, coordinator: Client) -> None:
        self._job = job
        self._coordinator = coordinator

    def before_init_train_context(self, workers: list[TrainWorker]) -> dict[str, list[object]]:
        """Give each worker its provider."""
        return {
            "dataset_shard_provider": [
                ShardProvider(self._job, self._coordinator, len(workers)) for _ in workers
            ]
        }


class ShardProvider:
    """Finds a worker's shard by the dataset's name."""

    def __init__(self, job: Job, coordinator: Client, num_ranks: int) -> None:
        self._job = job
        self._coordinator = coordinator
        self._num_ranks = num_ranks
        self._made: dict[str, PlannedShard] = {}

    def get_dataset_shard(self, dataset_info: DatasetShardMetadata) -> DataIterator:
        """Return the shard.

        Raises:
            KeyError: when the spec has no such dataset.
        """
        name = dataset_info.dataset_name
        if name not in self._job.plans:
            known = ", ".join(self._job.plans) or "none"
            raise KeyError(f"no dataset {name!r} in spec.data.datasets; it has: {known}")
        if name not in self._made:
            self._made[name] = PlannedShard(
                self._job.plans[name],
                self._coordinator.handle,
                dataset_info.world_rank,
                self._num_ranks,
                self._job.seed,
            )
        return self._made[name]


class Trainer(TorchTrainer):
    """TorchTrainer for one job."""

    def __init__(self, job: Job, coordinator: Client, **arguments: Any) -> None:
        self._job = job
        self._coordinator = coordinator
        super().__init__(**arguments)

    def _create_default_callbacks(self) -> list[RayTrainCallback]:
        # Ray's own callback starts an actor for datasets even when there are none. The cleaner, one
        # more actor, asks the dashboard's API: without a dashboard it can only complain.
        unwanted: tuple[type, ...] = (DatasetsCallback,)
        if not in_cluster():
            unwanted += (PlacementGroupCleanerCallback,)
        callbacks = [
            callback
            for callback in super()._create_default_callbacks()
            if not isinstance(callback, unwanted)
        ]
        return [*callbacks, Shards(self._job, self._coordinator)]

    def _initialize_and_run_controller(self, **arguments: Any) -> Result:
        config = self.run_config.failure_config
        assert isinstance(config, FailureConfig)
        arguments["failure_policy"] = UsersErrorsAreFinal(config, self._coordinator)
        return super()._initialize_and_run_controller(**arguments)
