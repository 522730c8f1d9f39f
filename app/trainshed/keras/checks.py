"""What a model of Keras has to be, so that its run can be counted, kept and gone on with."""

from __future__ import annotations

import tensorflow as tf


def check_model(model: object) -> None:
    """Refuse a model before it has trained what could not be gone on with.

    Raises:
        TypeError: for one that is not of Keras 2.
        ValueError: saying what is wrong with it, and what would be right.
    """
    if not isinstance(model, tf.keras.Model):
        kind = f"{type(model).__module__}.{type(model).__name__}"
        raise TypeError(f"track: got a {kind}; expected one of tf.keras, which is Keras 2 here")
    if not model.built or model.optimizer is None:
        raise ValueError("track needs a model that is built (its input is known) and compiled")
    name = type(model.optimizer).__name__
    if not isinstance(model.optimizer, tf.keras.optimizers.Optimizer):
        raise ValueError(
            f"track: got the optimizer {name} of tf.keras.optimizers.legacy, which does not go on "
            f"from a file; expected tf.keras.optimizers.{name}"
        )
