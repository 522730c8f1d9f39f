"""Ray Train with its defaults, checkpoints and data in memory; one worker is killed."""

import time

import ray
import ray.data
import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

from benchmarks.plain.model import build_mlp, build_optimizer, train_step
from benchmarks.plain.ray_checkpoint import load_checkpoint, report
from benchmarks.plain.steplog import StepLog


def train_loop_per_worker(config: dict[str, float | str]) -> None:
    """Resume from the last checkpoint and train; one worker is killed."""
    context = ray.train.get_context()
    log = StepLog(str(config["notes"]), context.get_world_rank())
    model = prepare_model(build_mlp(64, [128], 10))
    optimizer = build_optimizer(model)
    step = 0
    if state := load_checkpoint():
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    shard = ray.train.get_dataset_shard("train")
    batch_size = 64 // context.get_world_size()
    for batch in shard.iter_torch_batches(batch_size=batch_size, drop_last=True):
        train_step(model, optimizer, batch["x"], batch["y"])
        time.sleep(float(config["pause"]))
        step += 1
        log.record(step, int(config["kill_at"]))
        if step % int(config["every"]) == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            report({"step": step}, state)


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
