"""The rest of an epoch that another number of workers began.

Which rows a step has depends on the number of workers. So that no row is left out and none comes
twice, the rest of such an epoch keeps the steps of those who began it: each worker reads what all
of them would have, for this one epoch, and takes its share of each step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainshed.data.feed.batches import Batch, Feed, to_tensors, torch_types
from trainshed.data.order.split import share
from trainshed.data.read.columns import cut_rows, join, num_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.data.feed.batches import Blocks
    from trainshed.data.order.permutation import Indices, Piece
    from trainshed.data.order.plan import DatasetPlan
    from trainshed.data.order.schedule import Pass
    from trainshed.data.read.columns import Columns


def can_regroup(plan: DatasetPlan) -> bool:
    """Say whether a worker can read the rows of all: not where a global shuffle streams them."""
    return plan.shuffle.mode != "global" or plan.cache != "none" or plan.loader == "torch"


def regrouped(
    plan: DatasetPlan, blocks: Blocks, at: Pass, rank: int, num_ranks: int
) -> Iterator[Batch]:
    """Yield this rank's batches of a pass that `at.num_ranks` workers began.

    Args:
        plan: of the dataset, one that can be regrouped.
        blocks: where its rows are read from.
        at: the pass of those who began it.
        rank: this worker.
        num_ranks: number of workers now.
    """
    here = replace(plan, loader="torch", cache="none")  # all is done in this process
    dtypes = torch_types(plan.feed.dtypes)
    former = range(at.num_ranks) if plan.split else [rank % at.num_ranks]
    reread = _Reread(blocks, keep=plan.shuffle.mode == "global")
    feeds = [Feed(here, reread, other) for other in former]
    for tables in zip(*(feed.columns(at) for feed in feeds), strict=True):
        step = join([table for table in tables if num_rows(table)])
        total = num_rows(step)
        if plan.split:
            if total < num_ranks:  # the last step, kept small by feed.lastBatch
                return
            start = sum(share(total, num_ranks, other) for other in range(rank))
            step = cut_rows(step, start, start + share(total, num_ranks, rank))
        tensors = to_tensors(step, dtypes, plan.field)
        yield Batch(tensors, num_rows(step), total if plan.split else total * num_ranks)


class _Reread:
    """Blocks that are always read by the one who asks, never streamed to a rank.

    Args:
        blocks: that know how to read.
        keep: whether what was read once is kept, for all who ask for the same.
    """

    def __init__(self, blocks: Blocks, keep: bool) -> None:
        self._blocks = blocks
        self._keep = keep
        self._kept: dict[tuple[Piece, ...], list[Columns]] = {}

    def counts(self) -> Indices:
        """Return the rows of each fragment, shape (fragments,)."""
        return self._blocks.counts()

    def read(self, pieces: list[Piece]) -> Iterator[Columns]:
        """Return the pieces' rows as the transforms left them."""
        if not self._keep:
            return self._blocks.read(pieces)
        key = tuple(pieces)
        if key not in self._kept:
            self._kept[key] = list(self._blocks.read(pieces))
        return iter(self._kept[key])

    def stream(self, at: Pass, pieces: list[Piece]) -> Iterator[Columns]:  # noqa: ARG002
        """Return the pieces' rows; augmentation comes later, in this process too."""
        return self.read(pieces)
