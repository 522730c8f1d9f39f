"""What functions use that train with Lightning's Trainer on Ray Train.

Lightning is not among the requirements; importing this module needs it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import torch.distributed as dist
from ray.train.lightning import RayTrainReportCallback
from torch.utils._pytree import tree_leaves
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

    A resumed epoch reads its first batches again, and leaves them out. It needs the same number of
    workers and of batches in an epoch, and a dataset with a length.
    """

    # Batches to leave out of the next epoch, and those of the epoch under way that were given.
    _begun = _given = 0

    def __iter__(self) -> Iterator[Sample_co]:  # type: ignore[override]  # it counts the batches
        """Yield the rest of the epoch; its order is decided with the first batch.

        Lightning makes the iterator before it tells a DistributedSampler the epoch.

        Raises:
            TypeError: for a dataset without a length.
        """
        self._shape()
        begun, self._begun = self._begun, 0
        self._given = begun
        for batch in islice(super().__iter__(), begun, None):
            self._given += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return how many batches of the epoch under way were given; 0 at its end."""
        shape = self._shape()
        return {"batches": self._given % shape["batches_of_epoch"], **shape}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue after these batches.

        Raises:
            ValueError: in the middle of an epoch that other workers or batches had begun.
        """
        shape = self._shape()
        saved = {name: state[name] for name in shape}
        if state["batches"] and saved != shape:
            raise ValueError(
                f"ResumableLoader: got {_said(shape)}; expected {_said(saved)}, with which the "
                "epoch began. Resume with these, or from a checkpoint of an epoch's end"
            )
        self._begun = state["batches"]

    def _shape(self) -> dict[str, int]:
        """Return what decides which rows the batches of an epoch have."""
        try:
            batches = len(self)
        except TypeError as error:
            raise TypeError(
                "ResumableLoader: got a dataset without a length; expected one with __len__. Use "
                "PyTorch's DataLoader, with which a stopped run repeats its epoch"
            ) from error
        workers = dist.get_world_size() if dist.is_initialized() else 1
        return {"batches_of_epoch": batches, "workers": workers}


class LightningReportCallback(RayTrainReportCallback):
    """Ray's callback, which saves and reports at the end of an epoch; also stops after a step.

    A run that is asked to stop saves after its current step if all loaders have a state, and else
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
        # A Trainer may have several, in a list or by name. Lightning saves those with a state.
        if all(hasattr(each, "state_dict") for each in tree_leaves(trainer.train_dataloader)):
            self.on_train_epoch_end(trainer, pl_module)
        else:
            _warn(run)
        raise StopTraining


def _said(shape: Mapping[str, int]) -> str:
    return f"workers.count {shape['workers']} and {shape['batches_of_epoch']} batches in an epoch"


def _warn(run: BaseRun) -> None:
    run.warn(
        "a loader of Lightning has no state_dict, so the next attempt repeats the epoch; use "
        "trainshed.lightning.ResumableLoader to continue it"
    )
