"""Trains in steps of a fixed length on a cluster that loses Pods, and records each step."""

import time

import torch
from ray.train.torch import prepare_model
from torch.nn import functional as F

import trainshed
from benchmarks.plain.steplog import StepLog


def train(config: dict[str, float | str]) -> None:
    """Train on the column `label`, with `config["pause"]` seconds after each step."""
    run = trainshed.current()
    log = StepLog(str(config["notes"]), run.rank)
    model = prepare_model(torch.nn.Linear(1, 1))
    run.track(model, torch.optim.SGD(model.parameters(), lr=1e-3))
    for _ in run.epochs():
        for batch in run.batches("train"):
            labels = batch["label"].float().unsqueeze(1)
            run.backward_step(F.mse_loss(model(labels), labels))
            time.sleep(float(config["pause"]))
            log.record(run.step + 1)
