"""Samples train as they are; on one worker in this process, torch reads what they train on."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.app.alone import Left, train_alone
from tests.app.ray_run import ROOT
from tests.builders_data import write_pictures
from trainshed.digits import write_digits
from trainshed.storage.disk import Disk
from trainshed_api.loading import load_file
from trainshed_api.names import SUCCEEDED
from trainshed_api.progress import Evaluated

if TYPE_CHECKING:
    from pydantic import JsonValue

ONE_WORKER = "spec.workers={count: 1, resources: {cpu: 1}}"


SAMPLES = ROOT / "manifests" / "samples"


def train_sample(home: Path, name: str, *settings: str) -> Left:
    """Train a sample on data under `home`."""
    run = load_file(SAMPLES / f"{name}.yaml", [ONE_WORKER, *settings])
    spec: dict[str, JsonValue] = run.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    left = train_alone(home, spec)
    assert left.finished.outcome == SUCCEEDED, left.finished.message
    return left


def losses_of(left: Left) -> list[float]:
    """Return the losses of the evaluations."""
    return [e.metrics["valid.loss"] or 0 for e in left.events if isinstance(e, Evaluated)]


def test_rows_of_other_lengths_are_learned_in_parts_of_a_batch_as_at_one_go(tmp_path: Path) -> None:
    lefts = []
    for parts in (1, 3):
        write_digits(Disk(tmp_path / str(parts)))
        lefts.append(train_sample(tmp_path / str(parts), "collate", f"spec.accumulate={parts}"))

    whole, in_parts = map(losses_of, lefts)
    assert (lefts[0].finished.metrics["valid.accuracy"] or 0) >= 0.9
    # Other sums of float32 come to other weights in the end.
    assert in_parts[0] == pytest.approx(whole[0], rel=1e-3)


def test_the_vit_trains_on_encoded_pictures_with_augmentation(tmp_path: Path) -> None:
    for part, rows in (("train", 600), ("test", 200)):
        write_pictures(tmp_path / "cifar10" / part, rows=rows, files=3, seed=rows)
    left = train_sample(tmp_path, "vit-cifar", "spec.epochs=2", "spec.batchSize=50")

    losses = losses_of(left)
    assert len(losses) == 2
    assert losses[1] < losses[0]
