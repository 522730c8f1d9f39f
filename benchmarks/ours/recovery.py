"""Trains in steps of a fixed length; one worker is killed."""

import time

from ray.train.torch import prepare_model
from torch.nn import functional as F

import trainshed
from benchmarks.plain.model import build_mlp, build_optimizer
from benchmarks.plain.steplog import StepLog


def train(config: dict[str, float | str]) -> None:
    """Train, with `config["pause"]` seconds a step; rank 1 dies after step `config["killAt"]`."""
    run = trainshed.current()
    log = StepLog(str(config["notes"]), run.rank)
    model = prepare_model(build_mlp(64, [128], 10))
    run.track(model, build_optimizer(model))
    for _ in run.epochs():
        for batch in run.batches("train"):
            run.backward_step(F.cross_entropy(model(batch["x"]), batch["y"]))
            time.sleep(float(config["pause"]))
            log.record(run.step + 1, int(config["killAt"]))
