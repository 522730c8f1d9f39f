"""Train a multilayer perceptron of Keras on rows of numbers: classification or regression.

Datasets and options are those of trainshed.programs.tabular.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import trainshed.keras
from trainshed.programs.options import fault
from trainshed.programs.tabular import TabularOptions

if TYPE_CHECKING:
    import tensorflow as tf
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


def train(config: dict[str, object]) -> None:
    """Train on `config["features"]` to predict `config["label"]`."""
    options = TabularOptions.read(config)
    run = trainshed.keras.current()
    with run.strategy.scope():
        model = build_model(options)
    run.track(model)

    def pair(columns: dict[str, Array]) -> tuple[Array, Array]:
        return join_features(columns, options), columns[options.label]

    run.fit(pair, scored=["valid"] if "valid" in run.datasets else [])


def check_config(config: dict[str, object]) -> None:
    """Refuse a config that `train` would refuse.

    Raises:
        SpecError: naming `spec.config.<name>`.
    """
    options = TabularOptions.read(config)
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


def join_features(columns: dict[str, Array], options: TabularOptions) -> Array:
    """Return the columns side by side as float32 (rows, inputs).

    Raises:
        ValueError: when a column is not there.
        SpecError: when the numbers do not add up to `inputs`.
    """
    missing = [name for name in (*options.features, options.label) if name not in columns]
    if missing:
        raise ValueError(f"there is no column {', '.join(missing)}, only {', '.join(columns)}")
    parts = [columns[name].reshape(len(columns[name]), -1) for name in options.features]
    features = np.concatenate(parts, axis=1).astype(np.float32)
    if features.shape[1] != options.num_inputs:
        raise fault("inputs", options.num_inputs, f"{features.shape[1]}: a row holds so many")
    return features
