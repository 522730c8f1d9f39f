"""A plan's batches as TensorFlow's datasets: each rank its own, none of them dealt out again."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from numpy.typing import NDArray

    from trainshed.data.feed.batches import Batch

    Array = NDArray[np.generic]
    Pair = Callable[[dict[str, Array]], tuple[object, object]]

# Batches that TensorFlow holds beside those that the feed has made ready.
AHEAD = 1


class Fed:
    """One pass over a dataset, for one rank.

    Args:
        batches: of this rank.
        pair: makes (inputs, targets) of the columns of a batch.
        num_ranks: number of workers.
        is_weighted: whether rows have the weights that training needs.
    """

    def __init__(
        self, batches: Iterator[Batch], pair: Pair, num_ranks: int, *, is_weighted: bool
    ) -> None:
        self._batches = batches
        self._pair = pair
        self._num_ranks = num_ranks
        self._is_weighted = is_weighted
        self.totals: list[int] = []
        self.error: Exception | None = None

    def dataset(self, strategy: tf.distribute.Strategy) -> tf.data.Dataset:
        """Return the pass as (inputs, targets), and the weights of the rows where they have some.

        When it trains, Keras takes the mean over a rank's rows and then over ranks: where these
        differ in rows by one, weights make it the mean over all rows.
        """
        elements = self._elements()
        first = next(elements)
        signature = tf.nest.map_structure(_spec, first)

        def generate() -> Iterator[object]:
            return chain([first], elements)

        def make(_: object = None) -> tf.data.Dataset:
            made = tf.data.Dataset.from_generator(generate, output_signature=signature)
            return made.prefetch(AHEAD)

        if self._num_ranks == 1:
            return make()
        return strategy.distribute_datasets_from_function(make)

    def _elements(self) -> Generator[tuple[object, ...], None, None]:
        try:
            for batch in self._batches:
                columns = {name: tensor.numpy() for name, tensor in batch.tensors.items()}
                inputs, targets = self._pair(columns)
                self.totals.append(batch.total)
                if self._is_weighted:
                    weight = batch.rows * self._num_ranks / batch.total
                    yield inputs, targets, np.full(batch.rows, weight, dtype=np.float32)
                else:
                    yield inputs, targets
        except Exception as error:
            # TensorFlow makes words of it, which do not tell whose fault it is.
            self.error = error
            raise


def _spec(array: Array) -> tf.TensorSpec:
    return tf.TensorSpec((None, *np.shape(array)[1:]), np.asarray(array).dtype)
