"""Train an image classifier: columns `image` (bytes 0..255 or floats) and `label`.

Datasets: `train`, and `valid`, if there is one, for what is measured after each epoch.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
from trainshed.checkpoint.manifest import Prediction
from trainshed.programs.class_scores import class_scores
from trainshed.programs.images import SampleImages, to_model_input
from trainshed.programs.label_guard import LabelGuard
from trainshed.programs.models import cnn, vit
from trainshed.programs.optimizer import build_optimizer
from trainshed.programs.options import fault, pick


def train(config: dict[str, object]) -> None:
    """Train `config["model"]` and show some held-out pictures with what it says of them."""
    # Ray Train is imported where it is needed: who only looks at this module does not wait.
    from ray.train.torch import prepare_model

    run = trainshed.current()
    options = read_options(config)
    model = prepare_model(build_model(config))
    optimizer, scheduler = build_optimizer(model, options)
    run.describe_model(
        builder=build_model, input_transform=to_model_input, predict=predict, config=config
    )
    run.track(model, optimizer, scheduler)
    train_labels = LabelGuard("train", "label", options.classes)
    valid_labels = LabelGuard("valid", "label", options.classes)
    gallery = SampleImages()

    def score(module: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        images = pick(batch, "image")
        labels = valid_labels.check(pick(batch, "label"), run.step)
        logits = module(to_model_input(images, options)).float()
        predictions = logits.argmax(dim=1)
        gallery.add(images, labels, predictions)
        loss = F.cross_entropy(logits, labels, reduction="none")
        return {"loss": loss, "accuracy": (predictions == labels).float()}

    for _ in run.epochs():
        for batch in run.batches("train"):
            labels = train_labels.check(pick(batch, "label"), run.step + 1)
            with run.autocast():
                logits = model(to_model_input(pick(batch, "image"), options))
                loss = F.cross_entropy(logits, labels)
            run.backward_step(loss)
            run.log(loss=loss)
        train_labels.finish()
        if "valid" in run.datasets:
            gallery.clear()
            run.evaluate(score)
            valid_labels.finish()
            run.show("valid", gallery.images, gallery.captions, gallery.good)


def check_config(config: dict[str, object]) -> None:
    """Refuse a config that `train` would refuse.

    Raises:
        SpecError: naming `spec.config.<name>`.
    """
    with torch.device("meta"):  # no memory for weights that nobody trains
        build_model(config)


def check_rows(config: dict[str, object], columns: Mapping[str, NDArray[np.generic]]) -> None:
    """Refuse first rows that `train` would refuse.

    Raises:
        ValueError: naming the column.
    """
    pick(columns, "label")
    to_model_input(torch.from_numpy(pick(columns, "image").copy()), read_options(config))


def predict(model: nn.Module, batch: dict[str, Tensor], about: Prediction) -> dict[str, Tensor]:
    """Return the class of each picture and the scores of all classes."""
    images = pick(batch, "image")
    return class_scores(model(to_model_input(images, read_options(about.config))))


def read_options(config: Mapping[str, object]) -> cnn.CnnOptions | vit.VitOptions:
    """Return the options that `config` spells.

    Raises:
        SpecError: naming `spec.config.<name>`.
    """
    match config.get("model", "cnn"):
        case "cnn":
            return cnn.CnnOptions.read(config)
        case "vit":
            return vit.VitOptions.read(config)
        case other:
            raise fault("model", other, "cnn or vit")


def build_model(config: Mapping[str, object]) -> nn.Module:
    """Return the network that `config` describes.

    Raises:
        SpecError: naming `spec.config.<name>`.
    """
    options = read_options(config)
    return cnn.build(options) if isinstance(options, cnn.CnnOptions) else vit.build(options)
