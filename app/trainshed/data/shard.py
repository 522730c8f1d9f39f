"""A worker's share of a dataset for functions that use Ray Data's own iterator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ray
from ray.data import DataIterator
from ray.data._internal.execution.interfaces import RefBundle
from ray.data._internal.execution.interfaces.ref_bundle import BlockEntry
from ray.data._internal.stats import DatasetStats
from ray.data.block import BlockAccessor
from ray.data.context import DataContext

from trainshed.data.blocks import FedBlocks, OwnBlocks
from trainshed.data.schedule import Pass, rank_pieces
from trainshed.data.source import to_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from ray.actor import ActorHandle
    from ray.data._internal.execution.streaming_executor import StreamingExecutor

    from trainshed.data.batches import Blocks
    from trainshed.data.plan import DatasetPlan


class PlannedShard(DataIterator):
    """Ray Data's iterator over what the plan gives a rank: everything up to the split, and augmentation.

    Each iteration is the next epoch, counted from 0 in each worker group; where the training function
    uses `trainshed.current()` too, it is that run's epoch.

    Args:
        plan: of the dataset.
        coordinator: of the run.
        rank: this worker.
        num_ranks: number of workers.
        seed: the run's seed.
    """

    def __init__(
        self, plan: DatasetPlan, coordinator: ActorHandle, rank: int, num_ranks: int, seed: int
    ) -> None:
        self._plan = plan
        self._coordinator = coordinator
        self._rank = rank
        self._num_ranks = num_ranks
        self._seed = seed
        self._epoch = 0

    def _blocks(self) -> Blocks:
        if self._plan.loader == "torch":
            return OwnBlocks(self._plan)
        return FedBlocks(self._plan, self._coordinator, self._rank)

    def _to_ref_bundle_iterator(
        self,
    ) -> tuple[Iterator[RefBundle], DatasetStats | None, StreamingExecutor | None]:
        at = Pass(
            dataset=self._plan.name,
            kind="even",
            epoch=self._epoch,
            first_step=0,
            num_ranks=self._num_ranks,
            batch_size=1,
            seed=self._seed,
        )
        self._epoch += 1
        return self._bundles(at), DatasetStats(metadata={}, parent=None), None

    def _bundles(self, at: Pass) -> Iterator[RefBundle]:
        blocks = self._blocks()
        pieces = rank_pieces(self._plan, at, blocks.counts(), self._rank)
        for columns in blocks.stream(at, pieces):
            block = to_block(columns)
            accessor = BlockAccessor.for_block(block)
            entry = BlockEntry(ref=ray.put(block), metadata=accessor.get_metadata())
            yield RefBundle(blocks=(entry,), schema=accessor.schema(), owns_blocks=True)

    def stats(self) -> str:
        """Return what Ray Data would say of an execution; the report has the time that data took."""
        return (
            f"{self._plan.name}: rank {self._rank} of {self._num_ranks}, cache {self._plan.cache}"
        )

    def schema(self) -> pa.Schema | None:
        """Return the files' schema; None when only running the function tells."""
        return self._plan.source.schema if self._plan.source else None

    def get_context(self) -> DataContext:
        """Return this process's context."""
        return DataContext.get_current()

    def world_size(self) -> int:
        """Return the number of workers."""
        return self._num_ranks

    def _get_dataset_tag(self) -> dict[str, str | None]:
        return {"dataset": self._plan.name, "split_index": str(self._rank)}
