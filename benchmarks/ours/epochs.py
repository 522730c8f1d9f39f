"""Trains the MLP and measures the epochs."""

from types import SimpleNamespace

from ray.train.torch import prepare_model
from torch.nn import functional as F

import trainshed
from benchmarks.plain.clock import EpochClock
from benchmarks.plain.model import build_mlp, build_optimizer


def train(config: dict[str, object]) -> None:
    """Train layers of `config["hidden"]` on rows of `config["features"]` numbers."""
    options = SimpleNamespace(**config)
    run = trainshed.current()
    model = prepare_model(build_mlp(options.features, options.hidden, 10))
    run.track(model, build_optimizer(model))
    clock = EpochClock()
    for _ in run.epochs():
        for batch in clock.batches(run.batches("train")):
            with run.autocast():
                loss = F.cross_entropy(model(batch["x"]), batch["y"])
            run.backward_step(loss)
            run.log(loss=loss)
    clock.write(options.out)
