"""The upper bound: plain Keras on arrays in memory."""

import tensorflow as tf

from benchmarks.plain.files import read_rows
from benchmarks.plain.keras_model import EpochTimes, build_mlp


def main(*, data: str, hidden: list[int], batch_size: int, epochs: int) -> list[dict[str, float]]:
    """Train and return the epoch times."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    x, y = (tensor.numpy() for tensor in read_rows(data))
    model = build_mlp(x.shape[1], hidden, 10)
    times = EpochTimes()
    model.fit(x, y, batch_size=batch_size, epochs=epochs, callbacks=[times], verbose=0)
    return times.epochs
