"""The whole job as the guides of Ray write it: Ray Train on rows that Ray Data streams."""

import ray
import ray.data
import ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

from benchmarks.plain.model import build_mlp, build_optimizer, train_step
from benchmarks.plain.ray_checkpoint import report


def train_loop_per_worker(config: dict[str, int]) -> None:
    """Train, and report a checkpoint of each epoch."""
    torch.manual_seed(0)
    num_workers = ray.train.get_context().get_world_size()
    shard = ray.train.get_dataset_shard("train")
    model = prepare_model(build_mlp(config["features"], [256], 10))
    optimizer = build_optimizer(model)
    for epoch in range(config["epochs"]):
        loss = torch.zeros(())
        for batch in shard.iter_torch_batches(
            batch_size=config["batch_size"] // num_workers, drop_last=True
        ):
            loss = train_step(model, optimizer, batch["x"], batch["y"])
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        report({"epoch": epoch, "loss": loss.item()}, state)


def main(*, data: str, out: str, **config: object) -> None:
    """Start Ray and train."""
    # Two CPUs for workers and two for data: Ray Data hangs if workers take all CPUs.
    ray.init("local", num_cpus=4, include_dashboard=False)
    rows = ray.data.read_parquet(data).randomize_block_order()
    TorchTrainer(
        train_loop_per_worker,
        train_loop_config=config,
        datasets={"train": rows},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=out, name="plain"),
    ).fit()
