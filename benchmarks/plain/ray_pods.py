"""Ray Train with Ray Data as their guides write it, for a RayJob on a cluster that loses Pods."""

import argparse
import tempfile
import time
from pathlib import Path

import ray
import ray.data
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn

from benchmarks.plain.steplog import StepLog


def train_loop_per_worker(config: dict[str, object]) -> None:
    """Resume after the last epoch that has a checkpoint, and train."""
    pause, epochs = config["pause"], config["epochs"]
    assert isinstance(pause, float)
    assert isinstance(epochs, int)
    context = ray.train.get_context()
    rank, num_workers = context.get_world_rank(), context.get_world_size()
    log = StepLog(str(config["notes"]), rank)
    model = prepare_model(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    step, first_epoch = load(model)
    shard = ray.train.get_dataset_shard("train")
    for epoch in range(first_epoch, epochs):
        for batch in shard.iter_torch_batches(batch_size=64 // num_workers, drop_last=True):
            labels = batch["label"].float().unsqueeze(1)
            loss = nn.functional.mse_loss(model(labels), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]  # untyped in PyTorch
            optimizer.step()
            time.sleep(pause)
            step += 1
            log.record(step)
        report(model, step, epoch, rank)


def load(model: nn.Module) -> tuple[int, int]:
    """Load the last checkpoint; return the number of finished steps and epochs."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0, 0
    with checkpoint.as_directory() as folder:
        state = torch.load(Path(folder) / "state.pt")
    model.load_state_dict(state["model"])
    return int(state["step"]), int(state["epoch"]) + 1


def report(model: nn.Module, step: int, epoch: int, rank: int) -> None:
    """Report an epoch, with a checkpoint from rank 0."""
    if rank != 0:
        ray.train.report({"epoch": epoch})
        return
    with tempfile.TemporaryDirectory() as folder:
        state = {"model": model.state_dict(), "step": step, "epoch": epoch}
        torch.save(state, Path(folder) / "state.pt")
        ray.train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))


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
