"""Train a multilayer perceptron of Keras on rows of numbers: classification or regression.

Datasets and options are those of trainshed.programs.tabular.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import trainshed.keras
from trainshed.programs import tabular
from trainshed.programs.label_guard import LabelGuard
from trainshed.programs.models import mlp
from trainshed.programs.options import fault, pick
from trainshed.programs.tabular import TabularOptions, check_targets, join_features

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf
    from numpy.typing import NDArray

    from trainshed.checkpoint.manifest import Prediction

    Array = NDArray[np.generic]


def train(config: dict[str, object]) -> None:
    """Train on `config["features"]` to predict `config["label"]`."""
    options = TabularOptions.read(config)
    run = trainshed.keras.current()
    with run.strategy.scope():
        model = build_model(options)
    run.describe_model(
        features=options.features, input_transform=join_features, predict=predict, config=config
    )
    run.track(model)

    names = "/".join(run.datasets)
    guard = LabelGuard(names, options.label, options.classes)

    def pair(columns: dict[str, Array]) -> tuple[Array, Array]:
        tensors = _as_tensors(columns)
        targets = pick(tensors, options.label)
        if options.task == "classification":
            targets = guard.check(targets, run.step + 1)
        else:
            check_targets(names, options.label, targets)
        features = join_features(tensors, options.features, options.num_inputs)
        return features.numpy(), targets.numpy()

    run.fit(pair, scored=["valid"] if "valid" in run.datasets else [])


def predict(
    model: tf.keras.Model, batch: dict[str, Array], about: Prediction
) -> dict[str, torch.Tensor]:
    """Return the class of each row and the scores of all classes, or the number."""

    def outputs(features: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(model.predict_on_batch(features.numpy()))

    return tabular.predict(outputs, _as_tensors(batch), about)


def check_rows(config: dict[str, object], columns: dict[str, Array]) -> None:
    """Refuse first rows that `train` would refuse, as the tabular program does."""
    tabular.check_rows(config, columns)


def check_config(config: dict[str, object]) -> None:
    """Refuse a config that `train` would refuse.

    Raises:
        SpecError: naming `spec.config.<name>`.
    """
    options = TabularOptions.read(config)
    mlp.check_sizes(options.num_inputs, options.widths)
    if options.warmup_steps:
        raise fault("warmupSteps", options.warmup_steps, "0: Keras's optimizer has no warm-up here")


def build_model(options: TabularOptions) -> tf.keras.Model:
    """Return the compiled network that options describe."""
    import tensorflow as tf

    layers = [tf.keras.layers.Input((options.num_inputs,))]
    for width in options.widths:
        layers.append(tf.keras.layers.Dense(width, activation="relu"))
        if options.dropout:
            layers.append(tf.keras.layers.Dropout(options.dropout))
    layers.append(tf.keras.layers.Dense(options.outputs))
    model = tf.keras.Sequential(layers)
    optimizer = tf.keras.optimizers.AdamW(options.learning_rate, options.weight_decay)
    if options.task == "classification":
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, metrics=["accuracy"])
    else:
        model.compile(optimizer, "mse", metrics=["mae"])
    return model


def _as_tensors(columns: dict[str, Array]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values) for name, values in columns.items()}
