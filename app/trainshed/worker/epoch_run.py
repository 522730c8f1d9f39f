"""A run whose steps are batches: shared by frameworks that iterate over rows by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.worker.base_run import BaseRun
from trainshed.worker.dataset_positions import DatasetPositions

if TYPE_CHECKING:
    from collections.abc import Iterator


class EpochRun(BaseRun):
    """One worker's side of such a run."""

    def announce(self) -> None:
        """Report that training begins, and where the steps of this number of workers continue."""
        began = self._loop.saver.manifest
        if began:
            self._loop.position = self._feeds.gone_on(self._loop.position, began.workers)
            self._loop.dataset_positions = DatasetPositions(
                self._feeds.beside_steps_gone_on(began.positions, began.workers)
            )
        super().announce()

    def epochs(self) -> Iterator[int]:
        """Yield the remaining epochs, from 0; writes checkpoints between them. A collective.

        Raises:
            RuntimeError: if the spec has no `epochs`.
        """
        if self._job.spec.epochs is None:
            raise RuntimeError("spec.epochs is not set, so epochs() cannot count; set it")
        for epoch in range(self._loop.position.epoch, self._job.spec.epochs):
            self._loop.board.epoch = epoch + 1
            self.plain_function.epoch = epoch
            yield epoch
            self._loop.end_epoch()
