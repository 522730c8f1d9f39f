"""A training function as Ray Train calls it on each worker."""

import ray.train.torch
import torch
from torch import nn


def train(config: dict[str, float]) -> None:
    """Train a small network on the columns `image` and `label` of the dataset `train`."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = ray.train.torch.prepare_model(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learningRate"])
    shard = ray.train.get_dataset_shard("train")
    for epoch in range(int(config["epochs"])):
        for batch in shard.iter_torch_batches(batch_size=int(config["batchSize"])):
            logits = model(batch["image"].float() / 255)
            loss = nn.functional.cross_entropy(logits, batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        ray.train.report({"epoch": epoch + 1, "loss": loss.item()})
