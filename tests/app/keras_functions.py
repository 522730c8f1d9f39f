"""Training functions of Keras that tests name in `spec.train`; they run in Ray's workers."""

import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

import trainshed.keras
from tests.app.train_functions import die, linger, suspend

LINGER_SECONDS = 0.02


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

    scored = [name for name in run.datasets if name == "valid"]
    run.fit(pair, scored=scored, callbacks=[dying])


def predict(
    model: tf.keras.Model, batch: dict[str, NDArray[np.generic]]
) -> dict[str, NDArray[np.generic]]:
    """Return the number and the sum of each row."""
    return {"prediction": model.predict_on_batch(batch["x"]), "sum": batch["x"].sum(axis=1)}


def fit_for_predictions(config: dict[str, object]) -> None:
    """Fit a linear model with a function that predicts."""
    run = trainshed.keras.current()
    with run.strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    run.describe_model(predict=predict)
    run.track(model)
    run.fit(lambda columns: (columns["x"], columns["y"]))


def linger_over_rows(columns: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    """Return the rows of a batch a moment later."""
    time.sleep(LINGER_SECONDS)
    return columns


def never_track(config: dict[str, object]) -> None:
    """Forget to name the model."""
    trainshed.keras.current().fit(lambda columns: (columns["x"], columns["y"]))


def stop_early(config: dict[str, object]) -> None:
    """Halve the rate each epoch and stop when three were not better, which none is; note both."""
    run = trainshed.keras.current()
    with run.strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.01), "mse")
    run.track(model)

    def before_step(batch: int, logs: object = None) -> None:
        suspend(config, run.step)

    def note(epoch: int, logs: object) -> None:
        with Path(str(config["notes"])).open("a", encoding="utf-8") as file:
            file.write(f"{epoch} {float(model.optimizer.learning_rate):.6f}\n")

    callbacks = [
        tf.keras.callbacks.EarlyStopping("val_loss", min_delta=1e9, patience=3),
        tf.keras.callbacks.LearningRateScheduler(lambda _, rate: rate / 2),
        tf.keras.callbacks.LambdaCallback(on_batch_begin=before_step, on_epoch_end=note),
    ]
    run.fit(lambda rows: ([rows["x"]], rows["y"]), scored=["valid"], callbacks=callbacks)


def fit_wrongly(config: dict[str, object]) -> None:
    """Fit as `mistake` has it."""
    mistake = config["mistake"]
    run = trainshed.keras.current()
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.01)
    if mistake == "legacy":
        optimizer = tf.keras.optimizers.legacy.SGD(0.01)
    model.compile(optimizer, "mse")
    if mistake == "keras 3":
        import keras

        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    run.track(model)

    def pair(rows: dict[str, NDArray[np.generic]]) -> object:
        if mistake == "pair":
            return rows["x"]
        longer = 1 + (mistake == "shape" and run.step > 0)
        return np.tile(rows["x"], longer), rows["y"]

    run.fit(pair)  # type: ignore[arg-type]  # one of the mistakes
