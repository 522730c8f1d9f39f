"""The floor of Ray itself: a TorchTrainer of two workers that do nothing."""

import argparse

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_loop_per_worker() -> None:
    """Do nothing."""


def main() -> None:
    """Start Ray, do nothing in two workers, end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    ray.init("local", num_cpus=4, include_dashboard=False)
    TorchTrainer(
        train_loop_per_worker,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=options.out, name="empty"),
    ).fit()


if __name__ == "__main__":
    main()
