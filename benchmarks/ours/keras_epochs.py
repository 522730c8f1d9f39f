"""Trains the Keras model and measures the epochs."""

from types import SimpleNamespace

import trainshed.keras
from benchmarks.plain.keras_model import EpochTimes, build_mlp


def train(config: dict[str, object]) -> None:
    """Train layers of `config["hidden"]` on rows of `config["features"]` numbers."""
    options = SimpleNamespace(**config)
    run = trainshed.keras.current()
    with run.strategy.scope():
        model = build_mlp(options.features, options.hidden, 10)
    run.track(model)
    times = EpochTimes()
    run.fit(lambda columns: (columns["x"], columns["y"]), callbacks=[times])
    times.write(options.out)
