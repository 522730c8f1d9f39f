"""What functions use that train with Lightning's Trainer on Ray Train.

Lightning is not among the requirements; importing this module needs it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ray.train.lightning import RayTrainReportCallback
from torch.utils.data import DataLoader

from trainshed.worker.active_run import running
from trainshed.worker.loop import StopTraining

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import lightning.pytorch as pl

    from trainshed.worker.base_run import BaseRun

Sample_co = TypeVar("Sample_co", covariant=True)


class ResumableLoader(DataLoader[Sample_co]):
    """A DataLoader that Lightning continues in the middle of an epoch.

    A resumed epoch reads its first batches again, and leaves them out.
    """

    # Batches to leave out of the next epoch, and those of the epoch under way that were given.
    _begun = _given = 0

    def __iter__(self) -> Iterator[Sample_co]:  # type: ignore[override]  # it counts the batches
        """Yield the rest of the epoch; its order is decided with the first batch.

        Lightning makes the iterator before it tells a DistributedSampler the epoch.
        """
        begun, self._begun = self._begun, 0
        self._given = begun
        for batch in islice(super().__iter__(), begun, None):
            self._given += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return how many batches of the epoch under way were given; 0 at its end."""
        return {"batches": self._given % len(self)}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue after these batches."""
        self._begun = state["batches"]


class LightningReportCallback(RayTrainReportCallback):
    """Ray's callback, which saves and reports at the end of an epoch; also stops after a step.

    A run that is asked to stop saves after its current step if the loader has a state, and else
    repeats the epoch. Without a run of Trainshed's it is Ray's callback.
    """

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Stop here if the run was asked to, between two steps of the optimizer.

        Raises:
            StopTraining: if the run was asked to stop.
        """
        is_last = trainer.is_last_batch  # the end of the epoch follows, and saves
        is_stepped = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        run = running()
        if run is None or is_last or not is_stepped or not run.wants_stop():
            return
        # It comes after the hooks of callbacks, and would not be called for this batch.
        pl_module.on_train_batch_end(outputs, batch, batch_idx)
        if hasattr(trainer.train_dataloader, "state_dict"):
            self.on_train_epoch_end(trainer, pl_module)
        else:
            _warn(run)
        raise StopTraining


def _warn(run: BaseRun) -> None:
    run.warn(
        "Lightning's loader has no state_dict, so the next attempt repeats the epoch; use "
        "trainshed.lightning.ResumableLoader to continue it"
    )
