"""The step under way: its parts, how their losses weigh, and of which step the weights are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainshed.data.order.steps import part_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from trainshed.data.feed.batches import Batch


def parts_of(batch: Batch, most: int, num_ranks: int) -> Iterator[Batch]:
    """Yield a batch in so many parts, as far as every rank has a row for each; views of tensors.

    What a function made of it was made of each part by itself.
    """
    for number, (start, stop) in enumerate(part_spans(batch.rows, batch.total, most, num_ranks)):
        rows, nests = min(stop - start, batch.rows), batch.nests[number : number + 1]
        if nests:
            tensors = {name: batch.tensors[name] for name in nests[0].names}
        else:
            tensors = {name: tensor[start:stop] for name, tensor in batch.tensors.items()}
        yield replace(batch, tensors=tensors, rows=rows, nests=nests)


@dataclass
class Step:
    """What a training function does between two batches, or parts of one.

    Args:
        num_ranks: number of workers.
        accumulate: most parts of a batch.
    """

    num_ranks: int
    accumulate: int = 1
    is_under_way: bool = False
    is_last_part: bool = True
    _rows: int | None = None
    _total: int = 0
    _is_weighted: bool = False

    def begin(self, part: Batch, *, counts: bool, is_last: bool) -> None:
        """Begin a part of a batch; counts: of one of the run's steps.

        A batch of another dataset beside a step of the run is a part of that step.
        """
        if self.is_under_way and not counts:
            return
        self._rows, self._total = part.rows, part.total
        self._is_weighted, self.is_last_part = False, is_last
        self.is_under_way = counts

    def end(self, *, counts: bool) -> None:
        """End it."""
        if counts:
            self.is_under_way = False

    @property
    def is_in_weights(self) -> bool:
        """Say whether the weights have the step under way behind them."""
        return self.is_under_way and self._is_weighted and self.is_last_part

    def weigh(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss so that the mean over ranks of its gradients is the mean over rows."""
        self._is_weighted = True
        if self._rows is None or self._rows * self.num_ranks == self._total:
            return loss
        return loss * (self._rows * self.num_ranks / self._total)

    def check_weights(self) -> None:
        """Refuse a part that would count some rows for more than others.

        Raises:
            RuntimeError: when nobody weighed its loss, and it is one of several of its batch, or
                ranks have different numbers of rows.
        """
        if self._is_weighted:
            return
        if self.accumulate > 1:
            raise RuntimeError(
                f"spec.accumulate: {self.accumulate} parts of a step need backward_step, which "
                "makes one step of them; use it, or leave accumulate out"
            )
        if self._total % self.num_ranks:
            raise RuntimeError(
                f"spec.batchSize: {self._total} rows do not split evenly over {self.num_ranks} "
                "workers; use backward_step, which weighs them, or an even batch size"
            )
