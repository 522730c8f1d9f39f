"""What every worker is told about its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.data.sampler.dataset_plan import main_dataset
from trainshed.storage.run_folder import RAY_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.planning.ignored_fields import IgnoredFields
    from trainshed.storage.folder import Folder
    from trainshed_api.v1alpha1 import CheckpointSpec, Precision


@dataclass(frozen=True)
class AttemptConfig:
    """One attempt of a run, resolved.

    Args:
        name: of the run.
        train: `module:function`.
        attempt: its number.
        folder: of the attempt; everything that is written lies in it.
        resume_from: checkpoint of an earlier attempt that the runtime wrote, or None.
        users_resume: one that the function wrote itself through ray.train.report, or None.
        spec_hash: of the run.
        epochs: None for functions that count for themselves.
        batch_size: rows a step over all workers.
        accumulate: parts of a worker's rows of a step.
        precision: of the forward pass.
        sync_batch_norm: whether BatchNorm looks at the rows of all workers.
        seed: start of all randomness.
        reproducible: bit-equal at any price.
        threads: of each worker.
        first_step_seconds: that the first step may take; 0 for any time.
        stall_seconds: without a step, after which the attempt counts as lost; 0 for never.
        grace_seconds: that a stop may take.
        checkpoint: when to write.
        plans: by dataset.
        unheeded: fields that were set and that a loop of the function's own does not obey.
    """

    name: str
    train: str
    attempt: int
    folder: Folder
    resume_from: Folder | None
    users_resume: Folder | None
    spec_hash: str
    epochs: int | None
    batch_size: int
    accumulate: int
    precision: Precision
    sync_batch_norm: bool
    seed: int
    reproducible: bool
    threads: int
    first_step_seconds: float
    stall_seconds: float
    grace_seconds: float
    checkpoint: CheckpointSpec
    plans: Mapping[str, DatasetPlan]
    unheeded: IgnoredFields

    @property
    def checkpoints(self) -> Folder:
        """Return the folder below which this attempt's checkpoints lie: Ray Train's own."""
        return self.folder / RAY_FOLDER

    @property
    def main_dataset(self) -> str | None:
        """Return the dataset whose batches are the steps: `train`, else the first."""
        return main_dataset(self.plans)
