"""Examples of the gallery learn: on one worker in this process, without Ray."""

from collections.abc import Callable
from pathlib import Path

import pytest

from examples.gallery.detection.data import write_shapes
from tests.app.alone import Left, train_alone
from tests.bundle.repository import ROOT
from trainshed.digits import write_digits
from trainshed.storage.disk import Disk
from trainshed_api.loading import load_file
from trainshed_api.names import SUCCEEDED

GALLERY = ROOT / "examples" / "gallery"
Train = Callable[..., Left]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Return a function that trains a file of the gallery, on data below a home that it gets."""

    def train(file: str, home: str, *settings: str) -> Left:
        monkeypatch.syspath_prepend((GALLERY / file).parent)
        run = load_file(GALLERY / file, ["spec.workers.count=1", *settings])
        spec = run.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        del spec["code"]  # its folder is not a working directory here
        left = train_alone(tmp_path / home, spec)
        assert left.finished.outcome == SUCCEEDED, left.finished.message
        return left

    return train


def test_the_detector_learns_from_pictures_with_any_number_of_boxes(
    train: Train, tmp_path: Path
) -> None:
    write_shapes(tmp_path / "home" / "shapes")

    metrics = train("detection/run.yaml", "home").finished.metrics

    assert (metrics["valid.recall"] or 0) > 0.8


def test_low_rank_updates_adapt_the_network_of_another_run(train: Train, tmp_path: Path) -> None:
    for home in ("base", "adapted"):
        write_digits(Disk(tmp_path / home))
    base = train("lora/base.yaml", "base")

    adapted = train("lora/run.yaml", "adapted", f"spec.config.base={base.path}", "spec.epochs=8")

    assert (adapted.finished.metrics["valid.accuracy"] or 0) > 0.75


def test_generator_and_critic_train_together(train: Train, tmp_path: Path) -> None:
    write_digits(Disk(tmp_path / "home"))

    metrics = train("gan/run.yaml", "home", "spec.epochs=2").finished.metrics

    assert metrics.keys() >= {"critic_loss", "generator_loss"}
