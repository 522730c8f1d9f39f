"""Samples train as they are, on one worker in this process; torch reads what they train on."""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.app.alone import Left, train_alone
from tests.app.ray_run import ROOT
from tests.builders_data import write_pictures
from trainshed.digits import write_digits
from trainshed_api.loading import load_file
from trainshed_api.names import SUCCEEDED
from trainshed_api.progress import Evaluated

if TYPE_CHECKING:
    from pydantic import JsonValue

ONE_WORKER = "spec.workers={count: 1, resources: {cpu: 1}}"


def train_sample(home: Path, name: str, *settings: str) -> Left:
    """Train a sample on data under `home`."""
    file = ROOT / "manifests" / "samples" / f"{name}.yaml"
    run = load_file(file, [ONE_WORKER, "spec.data.loader=torch", *settings])
    spec: dict[str, JsonValue] = run.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    left = train_alone(home, spec)
    assert left.finished.outcome == SUCCEEDED, left.finished.message
    return left


def test_the_plain_data_loader_learns_to_read_digits(tmp_path: Path) -> None:
    write_digits(tmp_path)
    left = train_sample(tmp_path, "digits-dataloader")

    assert (left.finished.metrics["valid.accuracy"] or 0) >= 0.95


def test_the_vit_trains_on_encoded_pictures_with_augmentation(tmp_path: Path) -> None:
    for part, rows in (("train", 600), ("test", 200)):
        write_pictures(tmp_path / "cifar10" / part, rows=rows, files=3, seed=rows)
    left = train_sample(tmp_path, "vit-cifar", "spec.epochs=2", "spec.batchSize=50")

    losses = [e.metrics["valid.loss"] or 0 for e in left.events if isinstance(e, Evaluated)]
    assert len(losses) == 2
    assert losses[1] < losses[0]
