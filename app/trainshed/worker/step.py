"""The step under way: how its loss weighs, and of which step the weights are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from trainshed.data.feed.batches import Batch


@dataclass
class Step:
    """What a training function does between two batches.

    Args:
        num_ranks: number of workers.
    """

    num_ranks: int
    is_under_way: bool = False
    _rows: int | None = None
    _total: int = 0
    _is_weighted: bool = False

    def begin(self, batch: Batch, *, counts: bool) -> None:
        """Begin the step of a batch; counts: as one of the run's."""
        self._rows, self._total = batch.rows, batch.total
        self._is_weighted = False
        self.is_under_way = counts

    def end(self) -> None:
        """End it."""
        self.is_under_way = False

    @property
    def is_in_weights(self) -> bool:
        """Say whether the weights have the step under way behind them."""
        return self.is_under_way and self._is_weighted

    def weigh(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss so that the mean over ranks of its gradients is the mean over rows."""
        self._is_weighted = True
        if self._rows is None or self._rows * self.num_ranks == self._total:
            return loss
        return loss * (self._rows * self.num_ranks / self._total)

    def check_weights(self) -> None:
        """Refuse a step that would count some rows for more than others.

        Raises:
            RuntimeError: when nobody weighed its loss, and ranks have different numbers of rows.
        """
        if not self._is_weighted and self._total % self.num_ranks:
            raise RuntimeError(
                f"spec.batchSize: {self._total} rows do not split evenly over {self.num_ranks} "
                "workers; use backward_step, which weighs them, or an even batch size"
            )
