"""Measures the epochs of Ray Train with Ray Data, streaming or materialized, on one worker."""

import json
from pathlib import Path

import ray
import ray.data
import ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

from benchmarks.plain.clock import EpochClock
from benchmarks.plain.model import build_mlp, build_optimizer, train_step


def train_loop_per_worker(config: dict[str, int | str]) -> None:
    """Train and write the epoch times."""
    torch.manual_seed(0)
    shard = ray.train.get_dataset_shard("train")
    model = prepare_model(build_mlp(int(config["features"]), [256], 10))
    optimizer = build_optimizer(model)
    clock = EpochClock()
    for _ in range(int(config["epochs"])):
        batches = shard.iter_torch_batches(batch_size=int(config["batch_size"]), drop_last=True)
        for batch in clock.batches(batches):
            train_step(model, optimizer, batch["x"], batch["y"])
    clock.write(str(config["out"]))


def main(*, data: str, storage: str, materialize: bool, **config: object) -> list[dict[str, float]]:
    """Train and return the epoch times."""
    out = Path(storage, "epochs.json")
    ray.init("local", num_cpus=3, include_dashboard=False)
    rows = ray.data.read_parquet(data)
    TorchTrainer(
        train_loop_per_worker,
        train_loop_config={**config, "out": str(out)},
        datasets={"train": rows.materialize() if materialize else rows},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path=storage, name="plain"),
    ).fit()
    epochs: list[dict[str, float]] = json.loads(out.read_text(encoding="utf-8"))
    return epochs
