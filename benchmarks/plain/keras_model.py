"""The Keras model that both sides train, and a callback that measures their epochs."""

import json
import time
from pathlib import Path

import tensorflow as tf


def build_mlp(inputs: int, hidden: list[int], classes: int) -> tf.keras.Model:
    """Return a compiled MLP with ReLU between its layers."""
    layers = [tf.keras.layers.Input((inputs,))]
    layers += [tf.keras.layers.Dense(width, activation="relu") for width in hidden]
    model = tf.keras.Sequential([*layers, tf.keras.layers.Dense(classes)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.AdamW(1e-3), loss, metrics=["accuracy"])
    return model


class EpochTimes(tf.keras.callbacks.Callback):  # type: ignore[misc]  # TensorFlow is untyped
    """Measures each epoch from the end of its first step to the end of its last."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[dict[str, float]] = []
        self._first = self._last = 0.0
        self._steps = 0

    def on_epoch_begin(self, *_: object) -> None:
        """Reset the count of steps."""
        self._steps = 0

    def on_train_batch_end(self, *_: object) -> None:
        """Count a step."""
        self._last = time.perf_counter()
        self._steps += 1
        if self._steps == 1:
            self._first = self._last

    def on_epoch_end(self, *_: object) -> None:
        """Record the times."""
        steady = self._last - self._first
        self.epochs.append({"steadySeconds": steady, "steps": self._steps - 1})

    def write(self, file: str) -> None:
        """Write the times of all epochs as JSON."""
        Path(file).write_text(json.dumps(self.epochs), encoding="utf-8")
