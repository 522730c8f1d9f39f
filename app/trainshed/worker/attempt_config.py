"""The parameters of an attempt, for every worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.data.sampler.dataset_plan import main_dataset
from trainshed.storage.run_folder import RAY_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.storage.folder import Folder
    from trainshed_api.v1alpha1 import TrainingRunSpec

# What also holds for other files: neither their path nor a choice of rows does.
_READ = {"format", "options"}


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
        spec: of the run; epochs is None for functions with their own count.
        threads: of each worker.
        plans: by dataset.
    """

    name: str
    train: str
    attempt: int
    folder: Folder
    resume_from: Folder | None
    users_resume: Folder | None
    spec_hash: str
    spec: TrainingRunSpec
    threads: int
    plans: Mapping[str, DatasetPlan]

    @property
    def checkpoints(self) -> Folder:
        """Return the parent folder of this attempt's checkpoints: Ray Train's folder."""
        return self.folder / RAY_FOLDER

    @property
    def main_dataset(self) -> str | None:
        """Return the dataset whose batches are the steps: `train`, else the first."""
        return main_dataset(self.plans)

    def reading(self) -> dict[str, JsonValue]:
        """Return how the rows that the run scores are read, as a spec has it, for a manifest.

        Format, options, transforms and types of the dataset `valid`, as one that trains may leave
        its decoding to an augmentation. Without it they are those of the dataset that trains, and
        of a mix those of its first part.
        """
        if self.main_dataset is None:
            return {}
        datasets = self.spec.data.datasets
        spec = datasets.get("valid") or datasets[self.main_dataset]
        if spec.read.mix:
            spec = datasets[next(iter(spec.read.mix))]
        return spec.model_dump(
            mode="json",
            by_alias=True,
            exclude_defaults=True,
            include={"read": _READ, "transforms": True, "feed": {"dtypes", "collate"}},
        )
