"""A training function as Ray Train calls it on each worker."""

import ray.train.torch
import torch
import trainshed
from torch import nn


def train(config: dict[str, float]) -> None:
    """Train a small network on the columns `image` and `label` of the dataset `train`."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = ray.train.torch.prepare_model(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learningRate"])
    run = trainshed.current()
    run.track(model, optimizer)
    for epoch in run.epochs():
        for batch in run.batches("train"):
            logits = model(batch["image"].float() / 255)
            loss = nn.functional.cross_entropy(logits, batch["label"])
            run.backward_step(loss)
        ray.train.report({"epoch": epoch + 1, "loss": loss.item()})
