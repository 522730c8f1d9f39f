"""Training functions of Keras that tests name in `spec.train`; they run in Ray's workers."""

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

import trainshed.keras
from tests.app.train_functions import die, linger


def fit(config: dict[str, object]) -> None:
    """Fit a network to columns x and y and score it; die where the config says.

    `killWorkerAt`, `killDriverAt` (steps) and `hurry` are as train_functions.py has them.
    """
    run = trainshed.keras.current()
    with run.strategy.scope():
        layers = [
            tf.keras.layers.Input((4,)),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.Dense(1),
        ]
        model = tf.keras.Sequential(layers)
        model.compile(tf.keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    run.track(model)

    def before_step(batch: int, logs: object = None) -> None:
        die(config, run.step, run.rank)
        linger(config)

    dying = tf.keras.callbacks.LambdaCallback(on_batch_begin=before_step)

    def pair(columns: dict[str, NDArray[np.generic]]) -> tuple[object, object]:
        return columns["x"], columns["y"]

    run.fit(pair, scored=["valid"], callbacks=[dying])


def never_track(config: dict[str, object]) -> None:
    """Forget to name the model."""
    trainshed.keras.current().fit(lambda columns: (columns["x"], columns["y"]))
