"""Trains a ResNet on a GPU and measures the epochs."""

from ray.train.torch import prepare_model

import trainshed
from benchmarks.plain.clock import EpochClock
from benchmarks.plain.residual import build_optimizer, build_residual, loss_of, synchronized


def train(config: dict[str, str]) -> None:
    """Train `config["network"]`."""
    run = trainshed.current()
    model = prepare_model(build_residual(config["network"]))
    run.track(model, build_optimizer(model))
    clock = EpochClock()
    for _ in run.epochs():
        for batch in clock.batches(synchronized(run.batches("train"))):
            with run.autocast():
                loss = loss_of(model, batch["image"], batch["label"])
            run.backward_step(loss)
            run.log(loss=loss)
    clock.write(config["out"])
