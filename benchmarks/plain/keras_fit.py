"""The ceiling: plain Keras fits arrays that lie in memory."""

import tensorflow as tf

from benchmarks.plain.files import read_rows
from benchmarks.plain.keras_model import EpochTimes, build_mlp
from benchmarks.plain.options import loop_options


def main() -> None:
    """Fit and write the times of the epochs."""
    options = loop_options()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    x, y = (tensor.numpy() for tensor in read_rows(options.data))
    model = build_mlp(x.shape[1], options.hidden, 10)
    times = EpochTimes()
    sizes = {"batch_size": options.batch_size, "epochs": options.epochs}
    model.fit(x, y, **sizes, callbacks=[times], verbose=0)
    times.write(options.out)


if __name__ == "__main__":
    main()
