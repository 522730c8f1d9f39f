"""An epoch of Keras on batches that are ready: what `Model.fit` does, without tf.data between.

A dataset from a generator costs a sixth of a small step: each batch crosses two of its threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trainshed.keras.callbacks import CallbacksOfRun
    from trainshed.keras.feeding import Element

    Logs = dict[str, tf.Tensor]


class KerasTrainLoop:
    """Trains a model batch by batch, on all ranks alike.

    Args:
        model: compiled within the scope of the strategy.
        strategy: of the ranks, each with one replica.
    """

    def __init__(self, model: tf.keras.Model, strategy: tf.distribute.Strategy) -> None:
        self._model = model
        self._strategy = strategy
        self._step = self._compiled()

    def epoch(
        self, batches: Iterator[Element], count: int, told: CallbacksOfRun
    ) -> dict[str, float]:
        """Train on `steps` batches, or until a callback ends the training. A collective.

        Returns what the metrics came to.

        Args:
            batches: of this rank.
            count: of the batches.
            told: the callbacks.
        """
        self._model.reset_metrics()
        logs: Logs = {}
        with self._strategy.scope():
            for place in range(count):
                data = tf.nest.map_structure(tf.convert_to_tensor, next(batches))
                told.on_train_batch_begin(place)
                logs = self._step(data)
                told.on_train_batch_end(place, logs)
                if self._model.stop_training:
                    break
        return {name: float(value) for name, value in logs.items()}

    def _compiled(self) -> Callable[[Element], Logs]:
        model, strategy = self._model, self._strategy

        def train(data: Element) -> Logs:
            logs: Logs = model.train_step(data)
            # TensorBoard counts by it.
            model._train_counter.assign_add(1)
            return logs

        on_replica = train
        if model.jit_compile:
            on_replica = tf.function(train, jit_compile=True, reduce_retracing=True)

        def step(data: Element) -> Logs:
            # What each rank has of a metric is of all ranks by then.
            logs: Logs = strategy.run(on_replica, args=(data,))
            return {n: strategy.experimental_local_results(v)[0] for n, v in logs.items()}

        compiled: Callable[[Element], Logs] = (
            step if model.run_eagerly else tf.function(step, reduce_retracing=True)
        )
        return compiled
