"""Trains a ResNet on a GPU and measures the epochs."""

from __future__ import annotations

from ray.train.torch import prepare_model

import trainshed
from benchmarks.plain.clock import EpochClock
from benchmarks.plain.residual import build_optimizer, build_residual, loss_of, until_done


def train(config: dict[str, object]) -> None:
    """Train `config["network"]`."""
    run = trainshed.current()
    model = prepare_model(build_residual(str(config["network"])))
    run.track(model, build_optimizer(model))
    clock = EpochClock()
    for _ in run.epochs():
        for batch in clock.batches(until_done(run.batches("train"))):
            with run.autocast():
                loss = loss_of(model, batch["image"], batch["label"])
            run.backward_step(loss)
            run.log(loss=loss)
    clock.write(str(config["out"]))
