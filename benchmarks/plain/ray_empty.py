"""The lower bound of Ray: a TorchTrainer with two workers that do nothing."""

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_loop_per_worker() -> None:
    """Do nothing."""


def main(*, out: str) -> None:
    """Start Ray and run two workers that do nothing."""
    ray.init("local", num_cpus=4, include_dashboard=False)
    TorchTrainer(
        train_loop_per_worker,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=out, name="empty"),
    ).fit()
