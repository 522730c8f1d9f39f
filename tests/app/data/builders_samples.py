"""The runs of manifests/samples/data as they are read: planned by all that a run is checked by.

What their rows have to be is said in `sample_cases`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from tests.app.data.builders_plan import MemoryBlocks, make_pass
from tests.bundle.repository import ROOT
from trainshed.data.loader.batches import Batch, Feed, RowSource
from trainshed.data.sampler.bad_records import BadRecordList
from trainshed.data.sampler.dataset_plan import DatasetPlan, with_reporter
from trainshed.data.sampler.epoch_pass import Kind
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed_api.loading import load_file
from trainshed_api.v1alpha1 import TrainingRunResource

SAMPLES = ROOT / "manifests" / "samples" / "data"
# Samples are for more rows than these tests write.
BATCH = 4
# A row of more numbers is told by its shape and their mean.
MOST_NUMBERS = 100

MakeBlocks = Callable[[DatasetPlan], RowSource]


@dataclass(frozen=True)
class Sample:
    """A sample whose data were found in order.

    Args:
        run: as it was read.
        plans: by dataset.
        blocks: where the rows of a dataset come from.
        left_out: what was told of bad records.
    """

    run: TrainingRunResource
    plans: Mapping[str, DatasetPlan]
    blocks: MakeBlocks
    left_out: list[BadRecordList] = field(default_factory=list)

    def rows(self, dataset: str = "train") -> dict[str, list[object]]:
        """Return all rows of a dataset as its evaluation gets them: in file order, each once."""
        return _joined(self.batches("exact", dataset))

    def epoch(self, epoch: int = 0, dataset: str = "train") -> dict[str, list[object]]:
        """Return the rows of an epoch of training, in its order."""
        return _joined(self.batches("train", dataset, epoch))

    def batches(self, kind: Kind, dataset: str = "train", epoch: int = 0) -> list[Batch]:
        """Return the batches of a pass on one worker."""
        plan, spec = self.plans[dataset], self.run.spec
        at = make_pass(kind, epoch=epoch, world_size=1, batch_size=spec.batch_size, seed=spec.seed)
        return list(Feed(plan, self.blocks(plan), 0).batches(replace(at, dataset=plan.name)))


def open_sample(home: Path, name: str, settings: Sequence[str] = ()) -> Sample:
    """Return a sample that is read by this process.

    Args:
        home: what its relative paths lie under.
        name: of its file.
        settings: of what is another in a test, "path=value" each.
    """
    run = load_file(SAMPLES / f"{name}.yaml", [f"spec.batchSize={BATCH}", *settings])
    told: list[BadRecordList] = []
    plans = {
        dataset: with_reporter(plan, told.append)
        for dataset, plan in prepare(run, RunLocation(Disk(home))).plans.items()
    }
    return Sample(run, plans, lambda plan: MemoryBlocks(plan, 0), told)


def named_after(sample: Sample, name: str) -> Sample:
    """Return a sample whose datasets have names of its own beside those of other samples."""
    plans = {
        dataset: replace(plan, name=f"{name}.{dataset}") for dataset, plan in sample.plans.items()
    }
    return replace(sample, plans=plans)


def _joined(batches: Sequence[Batch]) -> dict[str, list[object]]:
    """Return the rows of batches, by column."""
    names = batches[0].tensors if batches else ()
    return {name: [row for each in batches for row in _told(each.tensors[name])] for name in names}


def _told(column: torch.Tensor) -> list[object]:
    if column[0].numel() <= MOST_NUMBERS:
        told: list[object] = column.tolist()
        return told
    return [(tuple(row.shape), row.double().mean().item()) for row in column]
