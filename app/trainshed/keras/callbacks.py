"""Keras's callbacks over all attempts of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Sequence

Memory = tuple[str, dict[str, object]]
# Set by Keras in each callback, or its own business.
_NOT_REMEMBERED = {"params", "model", "validation_data"}


class CallbacksOfRun(tf.keras.callbacks.CallbackList):  # type: ignore[misc]  # untyped
    """Calls them, from the run's beginning to its end.

    What callbacks remember as plain values (how long they have waited, which loss was best)
    survives with the checkpoints.

    Args:
        callbacks: of the function, and the run's own.
        model: what is trained.
        epochs: of the run.
        remembered: what a checkpoint holds of them, by their places.
    """

    def __init__(
        self,
        callbacks: Sequence[tf.keras.callbacks.Callback],
        model: tf.keras.Model,
        epochs: int,
        remembered: Sequence[Memory],
    ) -> None:
        super().__init__(
            list(callbacks), add_history=True, model=model, epochs=epochs, verbose=0, steps=None
        )
        self.on_train_begin()
        self._fresh = [_plain(callback) for callback in self.callbacks]
        for callback, (kind, values) in zip(self.callbacks, remembered, strict=False):
            if kind == type(callback).__qualname__:
                for name, value in values.items():
                    setattr(callback, name, value)

    def memory(self) -> list[Memory]:
        """Return what callbacks remember beside what they began with, by the names of classes."""
        return [
            (type(callback).__qualname__, _changes(_plain(callback), fresh))
            for callback, fresh in zip(self.callbacks, self._fresh, strict=True)
        ]


def _plain(callback: tf.keras.callbacks.Callback) -> dict[str, object]:
    """Return the attributes that are plain values, or weights."""
    found: dict[str, object] = {}
    for name, value in vars(callback).items():
        if name in _NOT_REMEMBERED:
            continue
        if isinstance(value, np.generic):
            found[name] = value.item()
        elif value is None or isinstance(value, (bool, int, float, str)):
            found[name] = value
        elif isinstance(value, list) and all(isinstance(each, np.ndarray) for each in value):
            # What model.get_weights() returns, such as the best ones so far.
            found[name] = [np.array(each) for each in value]
    return found


def _changes(now: dict[str, object], fresh: dict[str, object]) -> dict[str, object]:
    """Return what is another value than at first; weights are never compared."""
    return {
        name: value
        for name, value in now.items()
        if isinstance(value, list) or name not in fresh or value != fresh[name]
    }
