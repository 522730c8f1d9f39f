"""Measures how long `ray.train.report` blocks with defaults, with and without a checkpoint."""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
from ray.train import Checkpoint, CheckpointUploadMode, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from benchmarks.plain.ballast import Ballast

MODES = {"sync": CheckpointUploadMode.SYNC, "async": CheckpointUploadMode.ASYNC}


def train_loop_per_worker(config: dict[str, Any]) -> None:
    """Report checkpoints of each size in each mode, then metrics only."""
    # seconds: of each call, by "mode/megabytes", or "metrics" for calls without a checkpoint
    seconds: dict[str, list[float]] = {}
    for megabytes in config["megabytes"]:
        model = Ballast(megabytes)
        for name, mode in MODES.items():
            for _ in range(config["count"]):
                seconds.setdefault(f"{name}/{megabytes}", []).append(report(model, mode))
                time.sleep(config["pause"])
    for number in range(config["reports"]):
        started = time.perf_counter()
        ray.train.report({"number": number})
        seconds.setdefault("metrics", []).append(time.perf_counter() - started)
    Path(config["out"]).write_text(json.dumps(seconds), encoding="utf-8")


def report(model: torch.nn.Module, mode: CheckpointUploadMode) -> float:
    """Save and report the model; return the seconds that both blocked."""
    started = time.perf_counter()
    folder = tempfile.mkdtemp()
    torch.save(model.state_dict(), Path(folder) / "model.pt")
    ray.train.report(
        {"loss": 0.0},
        checkpoint=Checkpoint.from_directory(folder),
        checkpoint_upload_mode=mode,
        delete_local_checkpoint_after_upload=True,
    )
    return time.perf_counter() - started


def main(*, storage: str, **config: object) -> dict[str, list[float]]:
    """Report in a worker of Ray Train; return the seconds of each call."""
    out = Path(storage, "seconds.json")
    ray.init("local", num_cpus=2, include_dashboard=False)
    TorchTrainer(
        train_loop_per_worker,
        train_loop_config={**config, "out": str(out)},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(storage_path=storage, name="plain"),
    ).fit()
    seconds: dict[str, list[float]] = json.loads(out.read_text(encoding="utf-8"))
    return seconds
