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
from trainshed.programs.batch_columns import pick
from trainshed.programs.images import SampleImages, to_model_input
from trainshed.programs.label_guard import LabelGuard
from trainshed.programs.models import cnn, vit
from trainshed.programs.optimizer import build_optimizer
from trainshed.programs.options import ImageOptions, fault


def train(config: dict[str, object]) -> None:
    """Train `config["model"]` and show some held-out pictures with what it says of them."""
    # Ray Train is imported where it is needed: who only looks at this module does not wait.
    from ray.train.torch import prepare_model

    run = trainshed.current()
    options, network = build_model(config)
    model = prepare_model(network)
    optimizer, scheduler = build_optimizer(model, options)
    run.describe_model(builder=build_model, input_transform=to_model_input, config=config)
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
    with torch.device("meta"):
        options, _ = build_model(config)
    pick(columns, "label")
    to_model_input(torch.from_numpy(pick(columns, "image").copy()), options)


def build_model(config: dict[str, object]) -> tuple[ImageOptions, nn.Module]:
    """Return the options that `config` spells and the network they describe.

    Raises:
        SpecError: naming `spec.config.<name>`.
    """
    match config.get("model", "cnn"):
        case "cnn":
            cnn_options = cnn.CnnOptions.read(config)
            return cnn_options, cnn.build(cnn_options)
        case "vit":
            vit_options = vit.VitOptions.read(config)
            return vit_options, vit.build(vit_options)
        case other:
            raise fault("model", other, "cnn or vit")
