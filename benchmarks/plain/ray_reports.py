"""Measures how long `ray.train.report` blocks with defaults, with and without a checkpoint."""

import json
import tempfile
import time
from pathlib import Path

import ray
import ray.train
import torch
from ray.train import Checkpoint, CheckpointUploadMode, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from benchmarks.plain.ballast import Ballast
from benchmarks.plain.program import start

MODES = {"sync": CheckpointUploadMode.SYNC, "async": CheckpointUploadMode.ASYNC}


def train_loop_per_worker(config: dict[str, object]) -> None:
    """Report with checkpoints of each size in each mode, then metrics alone."""
    # found: seconds of each call by "mode/megabytes", and of reports without a checkpoint
    found: dict[str, list[float]] = {}
    for megabytes in config["megabytes"]:  # type: ignore[attr-defined]  # Ray hands on objects
        model = Ballast(megabytes)
        for name, mode in MODES.items():
            for _ in range(config["count"]):  # type: ignore[call-overload]
                found.setdefault(f"{name}/{megabytes}", []).append(report(model, mode))
                time.sleep(config["pause"])  # type: ignore[arg-type]
    for number in range(config["reports"]):  # type: ignore[call-overload]
        began = time.perf_counter()
        ray.train.report({"number": number})
        found.setdefault("metrics", []).append(time.perf_counter() - began)
    Path(str(config["out"])).write_text(json.dumps(found), encoding="utf-8")


def report(model: torch.nn.Module, mode: CheckpointUploadMode) -> float:
    """Save the model, report it and return the seconds that both blocked."""
    began = time.perf_counter()
    folder = tempfile.mkdtemp()
    torch.save(model.state_dict(), Path(folder) / "model.pt")
    ray.train.report(
        {"loss": 0.0},
        checkpoint=Checkpoint.from_directory(folder),
        checkpoint_upload_mode=mode,
        delete_local_checkpoint_after_upload=True,
    )
    return time.perf_counter() - began


def main(*, storage: str, **config: object) -> None:
    """Start Ray, report, end."""
    ray.init("local", num_cpus=2, include_dashboard=False)
    TorchTrainer(
        train_loop_per_worker,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path=storage, name="plain"),
    ).fit()


if __name__ == "__main__":
    start(main)
