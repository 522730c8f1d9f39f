"""The upper bound: plain Keras on arrays in memory."""

import tensorflow as tf

from benchmarks.plain.files import read_rows
from benchmarks.plain.keras_model import EpochTimes, build_mlp
from benchmarks.plain.program import start


def main(*, data: str, out: str, hidden: list[int], batch_size: int, epochs: int) -> None:
    """Fit and write the times of the epochs."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    x, y = (tensor.numpy() for tensor in read_rows(data))
    model = build_mlp(x.shape[1], hidden, 10)
    times = EpochTimes()
    sizes = {"batch_size": batch_size, "epochs": epochs}
    model.fit(x, y, **sizes, callbacks=[times], verbose=0)
    times.write(out)


if __name__ == "__main__":
    start(main)
