"""What `ray.train.get_dataset_shard` gives, and which passes lie behind a user's checkpoint.

Light on purpose, like failures.py: what a worker needs is imported in the worker.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ray.train.v2._internal.execution.callback import TrainContextCallback, WorkerGroupCallback

from trainshed.ray_train.report_relay import CoordinatorLink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ray.data import DataIterator
    from ray.train.v2._internal.data_integration.interfaces import DatasetShardMetadata
    from ray.train.v2._internal.execution.worker_group.worker import Worker as TrainWorker

    from trainshed.coordinator.actor import Coordinator


class Shards(WorkerGroupCallback):
    """Gives each worker its provider of shards."""

    def before_init_train_context(self, workers: list[TrainWorker]) -> dict[str, list[object]]:
        """Return the providers, one a worker."""
        return {"dataset_shard_provider": [ShardProvider() for _ in workers]}


class ShardProvider:
    """Asks the worker's run for its shards."""

    def get_dataset_shard(self, dataset_info: DatasetShardMetadata) -> DataIterator:
        """Return the shard.

        Raises:
            KeyError: when the spec has no such dataset.
        """
        from trainshed.worker.active_run import running

        run = running()
        assert run
        return run.plain_function.shard(dataset_info.dataset_name)


@dataclass(eq=False)
class PassKeeper(TrainContextCallback):
    """Says before each report of rank 0 which passes lie behind it, and what it did not resume.

    Args:
        coordinator: of the run.
    """

    coordinator: Coordinator

    @contextlib.contextmanager
    def on_report(self) -> Iterator[None]:
        """Say it before the report goes out: the controller asks when the report arrives."""
        from trainshed.worker.active_run import running

        run = running()
        if run and run.rank == 0:
            plain_function, line = run.plain_function, CoordinatorLink(self.coordinator)
            line.call(lambda _: plain_function.settle_resume())
            if plain_function.passes.done:
                done = dict(plain_function.passes.done)
                line.call(lambda coordinator: coordinator.keep_passes(done))
        yield
