"""What `ray.train.get_dataset_shard` gives: shards of the plan, fed by the coordinator.

Light on purpose, like failures.py: what a worker needs is imported in the worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ray.train.v2._internal.execution.callback import WorkerGroupCallback

if TYPE_CHECKING:
    from ray.data import DataIterator
    from ray.train.v2._internal.data_integration.interfaces import DatasetShardMetadata
    from ray.train.v2._internal.execution.worker_group.worker import Worker as TrainWorker

    from trainshed.data.shard import PlannedShard
    from trainshed.runtime.client import Client
    from trainshed.runtime.job import Job


class Shards(WorkerGroupCallback):
    """Gives each worker its provider of shards."""

    def __init__(self, job: Job, coordinator: Client) -> None:
        self._job = job
        self._coordinator = coordinator

    def before_init_train_context(self, workers: list[TrainWorker]) -> dict[str, list[object]]:
        """Return the providers, one a worker."""
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
        from trainshed.data.shard import PlannedShard

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
