"""What of a Keras run must survive: the whole model, its optimizer with it, what callbacks know."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainshed.checkpoint.manifest import MODEL, TrackedObject
from trainshed.checkpoint.model_file import KERAS
from trainshed.checkpoint.store import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import tensorflow as tf

    from trainshed.keras.callbacks import Memory


@dataclass(eq=False)
class KerasState:
    """A compiled model, built on all ranks alike.

    Args:
        model: of Keras 2.
        strategy: of the ranks.
    """

    model_file = KERAS

    model: tf.keras.Model
    strategy: tf.distribute.Strategy
    # Set where callbacks are: what they remember now.
    remember: Callable[[], Sequence[Memory]] = list
    # What they remembered in the checkpoint that was loaded.
    remembered: Sequence[Memory] = ()
    # Whether a callback has ended the training.
    is_over: bool = False

    def objects(self) -> dict[str, TrackedObject]:
        """Return the names of what is written; the model's file holds its optimizer too."""
        return {
            MODEL: TrackedObject(kind="model", files=(KERAS.name,)),
            "optimizer": TrackedObject(kind="optimizer", files=(KERAS.name, STATE)),
            **{
                name: TrackedObject(kind="other", files=(STATE,))
                for name in ("learningRate", "callbacks", "isOver")
            },
        }

    def weights(self) -> dict[str, object]:
        """Return the model as Keras writes it. A collective where it has running statistics."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, KERAS.name)
            # Named: without it Keras writes HDF5 in any thread but the one that imported it first.
            self.model.save(file, save_format="keras_v3")
            return {MODEL: file.read_bytes()}

    def state(self) -> dict[str, object]:
        """Return what the file does not hold, or does not give back."""
        optimizer = _inner_optimizer(self.model)
        return {
            "optimizer": type(optimizer).__name__,
            "learningRate": self._learning_rate(),
            "callbacks": [_to_tensors(memory) for memory in self.remember()],
            "isOver": self.is_over,
        }

    def help_gather(self) -> None:
        """Read the running statistics with rank 0, which are means over ranks."""
        self.weights()

    def load(self, saved: Mapping[str, object]) -> None:
        """Load weights and the optimizer's state.

        Raises:
            ValueError: where they are another optimizer's, whose state Keras would leave out.
        """
        model = saved[MODEL]
        assert isinstance(model, bytes)
        mine = type(_inner_optimizer(self.model)).__name__
        if mine != saved["optimizer"]:
            raise ValueError(
                f"track: got the optimizer {mine}; expected {saved['optimizer']}, with which the "
                "checkpoint was written, or start over with --fresh"
            )
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, KERAS.name)
            file.write_bytes(model)
            with self.strategy.scope():
                # Else it has no slots yet that could be filled.
                self.model.optimizer.build(self.model.trainable_variables)
                self.model.load_weights(file)
                # A number that callbacks set is no variable that Keras reads back.
                if saved["learningRate"] is not None:
                    self.model.optimizer.learning_rate = saved["learningRate"]
        callbacks = saved["callbacks"]
        assert isinstance(callbacks, list)
        self.remembered = [_from_tensors(memory) for memory in callbacks]
        self.is_over = bool(saved["isOver"])

    def _learning_rate(self) -> float | None:
        """Return it where it is a number; a schedule follows the optimizer's steps by itself."""
        # The private name: the public one is the schedule's value of now.
        rate = _inner_optimizer(self.model)._learning_rate
        return None if callable(rate) else float(rate.numpy())


def _inner_optimizer(model: tf.keras.Model) -> tf.keras.optimizers.Optimizer:
    """Return what optimizes, without what scales its losses."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)


def _to_tensors(memory: Memory) -> Memory:
    """Return it with weights as what a checkpoint may hold."""
    kind, values = memory
    return kind, {
        name: [torch.from_numpy(each) for each in value] if isinstance(value, list) else value
        for name, value in values.items()
    }


def _from_tensors(memory: Memory) -> Memory:
    kind, values = memory
    return kind, {
        name: [each.numpy() for each in value] if isinstance(value, list) else value
        for name, value in values.items()
    }
