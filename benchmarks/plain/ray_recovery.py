"""Ray Train with its defaults, checkpoints and data in memory; one worker is killed."""

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

from benchmarks.plain.model import build_mlp, build_optimizer, train_step
from benchmarks.plain.steplog import StepLog


def train_loop_per_worker(config: dict[str, object]) -> None:
    """Resume from the last checkpoint and train; one worker is killed."""
    every, kill_at, pause = config["every"], config["kill_at"], config["pause"]
    assert isinstance(every, int)
    assert isinstance(kill_at, int)
    assert isinstance(pause, float)
    context = ray.train.get_context()
    rank, num_workers = context.get_world_rank(), context.get_world_size()
    log = StepLog(str(config["notes"]), rank)
    model = prepare_model(build_mlp(64, [128], 10))
    optimizer = build_optimizer(model)
    step = load(model, optimizer)
    shard = ray.train.get_dataset_shard("train")
    for batch in shard.iter_torch_batches(batch_size=64 // num_workers, drop_last=True):
        train_step(model, optimizer, batch["x"], batch["y"])
        time.sleep(pause)
        step += 1
        log.record(step, kill_at)
        if step % every == 0:
            report(model, optimizer, step, rank)


def load(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load the last checkpoint; return the number of finished steps."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        state = torch.load(Path(folder) / "state.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def report(model: nn.Module, optimizer: torch.optim.Optimizer, step: int, rank: int) -> None:
    """Report the step, with a checkpoint from rank 0."""
    if rank != 0:
        ray.train.report({"step": step})
        return
    with tempfile.TemporaryDirectory() as folder:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, Path(folder) / "state.pt")
        ray.train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))


def main(*, data: str, storage: str, **config: object) -> None:
    """Start Ray and train."""
    ray.init("local", num_cpus=3, include_dashboard=False)
    TorchTrainer(
        train_loop_per_worker,
        train_loop_config=config,
        datasets={"train": ray.data.read_parquet(data).materialize()},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=storage,
            name="plain",
            failure_config=FailureConfig(max_failures=3),  # the default is 0
        ),
    ).fit()
