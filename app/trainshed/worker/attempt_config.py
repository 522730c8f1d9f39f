"""The parameters of an attempt, for every worker."""

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
    """One attempt of a run, with resolved settings.

    Args:
        name: of the run.
        train: `module:function`.
        attempt: its number.
        folder: of the attempt; all files are written below it.
        resume_from: checkpoint of an earlier attempt that Trainshed wrote, or None.
        users_resume: one that the function wrote through ray.train.report, or None.
        spec_hash: of the run.
        epochs: None for functions with their own count.
        batch_size: rows per step over all workers.
        accumulate: number of parts of a worker's rows of a step.
        precision: of the forward pass.
        sync_batch_norm: whether BatchNorm uses the rows of all workers.
        seed: of all random numbers.
        reproducible: whether results must be bit-equal.
        threads: of each worker.
        first_step_seconds: maximum for the first step; 0 for no limit.
        stall_seconds: maximum without a step, after which the attempt counts as lost; 0 for no
            limit.
        grace_seconds: maximum for a stop.
        checkpoint: when to write checkpoints.
        plans: by dataset.
        unheeded: fields that were set and that a function with its own loop ignores.
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
        """Return the parent folder of this attempt's checkpoints: Ray Train's folder."""
        return self.folder / RAY_FOLDER

    @property
    def main_dataset(self) -> str | None:
        """Return the dataset whose batches are the steps: `train`, else the first."""
        return main_dataset(self.plans)
