"""Ray Train with Ray Data as their guides write it, for a RayJob on a cluster that loses Pods."""

import argparse
import time

import ray
import ray.data
import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn

from benchmarks.plain.ray_checkpoint import load_checkpoint, report
from benchmarks.plain.steplog import StepLog


def train_loop_per_worker(config: dict[str, float | str]) -> None:
    """Resume after the last epoch that has a checkpoint, and train."""
    context = ray.train.get_context()
    log = StepLog(str(config["notes"]), context.get_world_rank())
    model = prepare_model(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    step = first_epoch = 0
    if state := load_checkpoint():
        model.load_state_dict(state["model"])
        step, first_epoch = state["step"], state["epoch"] + 1
    shard = ray.train.get_dataset_shard("train")
    batch_size = 64 // context.get_world_size()
    for epoch in range(first_epoch, int(config["epochs"])):
        for batch in shard.iter_torch_batches(batch_size=batch_size, drop_last=True):
            labels = batch["label"].float().unsqueeze(1)
            loss = nn.functional.mse_loss(model(labels), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]  # untyped in PyTorch
            optimizer.step()
            time.sleep(float(config["pause"]))
            step += 1
            log.record(step)
        report({"epoch": epoch}, {"model": model.state_dict(), "step": step, "epoch": epoch})


def main() -> None:
    """Train on the cluster of the job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--notes", required=True)
    parser.add_argument("--storage", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--pause", type=float, required=True)
    options = vars(parser.parse_args())
    ray.init()
    TorchTrainer(
        train_loop_per_worker,
        train_loop_config=options,
        datasets={"train": ray.data.read_parquet(options["data"], columns=["label"])},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=options["storage"],
            name=options["name"],  # a fixed name, so that a restarted driver finds the checkpoints
            failure_config=FailureConfig(max_failures=3),  # the default is 0
        ),
    ).fit()


if __name__ == "__main__":
    main()
