import pytest
import torch

from tests.app.programs.fake_run import run_program
from tests.builders_data import make_pictures
from trainshed.programs import vision

MODELS: dict[str, dict[str, object]] = {
    "cnn": {"model": "cnn", "width": 8, "learningRate": 0.01},
    "vit": {"model": "vit", "patch": 2, "width": 32, "depth": 2, "learningRate": 0.005},
}


def make_datasets(rows: int = 384) -> dict[str, dict[str, torch.Tensor]]:
    """Return colour pictures of 8x8 pixels in four classes, the last 64 held out."""
    pictures, labels = make_pictures(rows, size=8, classes=4)
    images, targets = torch.from_numpy(pictures), torch.from_numpy(labels)
    return {
        "train": {"image": images[:-64], "label": targets[:-64]},
        "valid": {"image": images[-64:], "label": targets[-64:]},
    }


def make_config(**options: object) -> dict[str, object]:
    return {"imageSize": 8, "channels": 3, "classes": 4, **options}


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_each_model_learns(monkeypatch: pytest.MonkeyPatch, options: dict[str, object]) -> None:
    run = run_program(monkeypatch, vision.train, make_config(**options), make_datasets(), epochs=4)
    assert run.step == 40
    assert run.metrics["valid.accuracy"] > 0.8
    assert run.losses[-1] < run.losses[0]


def test_held_out_pictures_are_shown_with_their_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = make_datasets()
    run = run_program(monkeypatch, vision.train, make_config(width=8), datasets)
    images, captions, good = run.shown["valid"]
    assert images.shape == (16, 8, 8, 3)
    assert (images == datasets["valid"]["image"][:16].numpy()).all()
    assert captions[0].startswith(f"{datasets['valid']['label'][0]} (predicted ")
    assert len(captions) == len(good) == 16


def test_two_runs_with_one_seed_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(width=8)
    runs = [run_program(monkeypatch, vision.train, config, make_datasets()) for _ in range(2)]
    assert runs[0].losses == runs[1].losses


def test_without_held_out_data_nothing_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = {"train": make_datasets()["train"]}
    run = run_program(monkeypatch, vision.train, make_config(width=8), datasets)
    assert (run.metrics, run.shown) == ({}, {})


def test_warm_up_starts_slow_and_reaches_the_full_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(width=8, warmupSteps=5, learningRate=0.01)
    run = run_program(monkeypatch, vision.train, config, make_datasets())
    assert run.step == 10
    assert run.learning_rates[0] == pytest.approx(0.002)
    assert run.learning_rates[5:] == pytest.approx([0.01] * 5)


BAD_LABELS = {
    "in the third batch of training": ("train", 70, "step 3"),
    "among the held out": ("valid", 0, "step 10"),
}


@pytest.mark.parametrize(("dataset", "row", "step"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_label_out_of_range_stops_the_run(
    monkeypatch: pytest.MonkeyPatch, dataset: str, row: int, step: str
) -> None:
    datasets = make_datasets()
    datasets[dataset]["label"][row] = 4
    want = f'dataset "{dataset}", column "label": label 4 at {step} is no class'
    with pytest.raises(ValueError, match=want):
        run_program(monkeypatch, vision.train, make_config(width=8), datasets)
