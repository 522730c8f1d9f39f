"""Ray Data's own iterator over blocks that are made in the process that iterates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ray
from ray.data import DataIterator
from ray.data._internal.execution.interfaces import RefBundle
from ray.data._internal.execution.interfaces.ref_bundle import BlockEntry
from ray.data._internal.stats import DatasetStats
from ray.data.block import BlockAccessor
from ray.data.context import DataContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from ray.data._internal.execution.streaming_executor import StreamingExecutor
    from ray.data.block import Block


@dataclass(frozen=True)
class IteratorFacts:
    """What an iterator says of its dataset.

    Args:
        name: of the dataset.
        statistics: what Ray Data would say of an execution.
        schema: of the files; None when only running the function tells.
    """

    name: str
    statistics: str
    schema: pa.Schema | None


class PlannedShard(DataIterator):
    """Ray Data's iterator over all that the plan gives a rank: equally many rows on every rank.

    What a batch is, in which types and how many are made ahead, the function says itself.

    Args:
        facts: of the dataset.
        world_size: number of workers.
        begin: called when an iteration begins; returns its blocks.
        end: called when an iteration is over, with the seconds that it made the function wait.
    """

    def __init__(
        self,
        facts: IteratorFacts,
        world_size: int,
        begin: Callable[[], Iterator[Block]],
        end: Callable[[float], None],
    ) -> None:
        self._facts = facts
        self._world_size = world_size
        self._begin = begin
        self._end = end
        self._stats = DatasetStats(metadata={}, parent=None)

    def _to_ref_bundle_iterator(
        self,
    ) -> tuple[Iterator[RefBundle], DatasetStats | None, StreamingExecutor | None]:
        self._stats = DatasetStats(metadata={}, parent=None)
        return self._bundles(self._begin()), self._stats, None

    def _bundles(self, blocks: Iterator[Block]) -> Iterator[RefBundle]:
        for block in blocks:
            accessor = BlockAccessor.for_block(block)
            ref = ray.put(block)
            # Ray has one class of references for checkers and another one that it uses.
            entry = BlockEntry(ref=ref, metadata=accessor.get_metadata())  # type: ignore[arg-type]
            yield RefBundle(blocks=(entry,), schema=accessor.schema(), owns_blocks=True)

    def _on_iteration_end(self, executor: StreamingExecutor | None) -> None:  # noqa: ARG002
        """Count the iteration; also one that was left early."""
        self._end(self._stats.iter_total_blocked_s.get())

    def stats(self) -> str:
        """Return what Ray Data would say of an execution; the report says where the time went."""
        return self._facts.statistics

    def schema(self) -> pa.Schema | None:
        """Return the files' schema; None when only running the function tells."""
        return self._facts.schema

    def get_context(self) -> DataContext:
        """Return this process's context."""
        return DataContext.get_current()

    def world_size(self) -> int:
        """Return the number of workers."""
        return self._world_size

    def _get_dataset_tag(self) -> dict[str, str | None]:
        return {"dataset": self._facts.name, "split_index": None}
