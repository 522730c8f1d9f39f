"""A plan's batches as TensorFlow's datasets: each rank its own, none of them dealt out again."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from numpy.typing import NDArray

    from trainshed.data.loader.batches import Batch

    Array = NDArray[np.generic]
    Element = tuple[object, ...]
    Pair = Callable[[dict[str, Array]], Element]

# Batches that TensorFlow holds beside those that the feed has made ready.
AHEAD = 1


@dataclass(eq=False)
class Fed:
    """One pass over a dataset, for one rank.

    Args:
        batches: of this rank.
        pair: makes (inputs, targets), or these and the weights of the rows, of a batch's columns.
        world_size: number of workers.
        is_weighted: whether rows have the weights that training needs.
    """

    batches: Iterator[Batch]
    pair: Pair
    world_size: int
    is_weighted: bool
    totals: list[int] = field(default_factory=list)
    error: Exception | None = None

    def dataset(self, strategy: tf.distribute.Strategy) -> tf.data.Dataset:
        """Return the pass as Keras evaluates it."""
        elements = self.elements()
        first = next(elements)
        signature = tf.nest.map_structure(_spec, first)

        def generate() -> Iterator[object]:
            return chain([first], elements)

        def make(_: object = None) -> tf.data.Dataset:
            made = tf.data.Dataset.from_generator(generate, output_signature=signature)
            return made.prefetch(AHEAD)

        if self.world_size == 1:
            return make()
        return strategy.distribute_datasets_from_function(make)

    def elements(self) -> Generator[Element, None, None]:
        """Yield (inputs, targets), and the weights of the rows where they need some.

        When it trains, Keras takes the mean over a rank's rows and then over ranks: where these
        differ in rows by one, weights make it the mean over all rows.

        Raises:
            ValueError: for what `pair` may not give.
        """
        shapes: list[tuple[int, ...]] | None = None
        try:
            for batch in self.batches:
                columns = {name: tensor.numpy() for name, tensor in batch.tensors.items()}
                element = self._weigh(_tuples(self.pair(columns)), batch)
                now = [np.shape(array)[1:] for array in tf.nest.flatten(element)]
                if shapes is not None and now != shapes:
                    raise ValueError(
                        f"pair: got a batch with rows of the shapes {now} after one of {shapes}; "
                        "expected the same for all, such as texts padded to one length"
                    )
                shapes = now
                self.totals.append(batch.total)
                yield element
        except Exception as error:
            # TensorFlow makes words of it, which do not tell whose fault it is.
            self.error = error
            raise

    def _weigh(self, element: object, batch: Batch) -> Element:
        """Return (inputs, targets), with weights where rows of this rank count more or less."""
        if not isinstance(element, tuple) or len(element) not in (2, 3):
            said = (
                f"{len(element)} of them" if isinstance(element, tuple) else type(element).__name__
            )
            raise ValueError(
                f"pair: got {said}; expected (inputs, targets) or (inputs, targets, weights)"
            )
        if not self.is_weighted or self.world_size == 1:
            return element
        weight = batch.rows * self.world_size / batch.total
        rows = len(next(iter(batch.tensors.values())))  # one that counts for nothing is there too
        own = element[2] if len(element) == 3 else np.ones(rows)  # noqa: PLR2004 - as above
        return (*element[:2], np.asarray(own, dtype=np.float32) * np.float32(weight))


def _tuples(value: object) -> object:
    """Return it with tuples for lists: Keras takes lists of inputs, tf.data does not."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_tuples, value))
    if isinstance(value, dict):
        return {key: _tuples(each) for key, each in value.items()}
    return value


def _spec(array: Array) -> tf.TensorSpec:
    return tf.TensorSpec((None, *np.shape(array)[1:]), np.asarray(array).dtype)
