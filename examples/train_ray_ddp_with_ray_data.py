"""Train a network on handwritten digits: Ray Train fed by Ray Data.

    python train_ray_ddp_with_ray_data.py --num-workers 2 --epochs 3

Ray Data reads and prepares the rows in its own tasks, next to the training workers.

Plain Ray Train. Started again under the same run name it resumes after the last finished
epoch. As `entrypoint:` of a TrainingRun it reads the number of workers, the storage and the
run's name from TRAINSHED_NUM_WORKERS, TRAINSHED_STORAGE and TRAINSHED_RUN_NAME.
"""

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import ray
import ray.data
import ray.train
import torch
from ray.train import Checkpoint, DataConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device, prepare_model
from sklearn.datasets import load_digits
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

NUM_HELD_OUT = 360
NUM_DATA_CPUS = 2


def read_digits() -> tuple[ray.data.Dataset, ray.data.Dataset]:
    """Return the digits as `row`, `pixels` (64,) and `label`, for training and for evaluation.

    For data on storage use `ray.data.read_parquet("s3://bucket/digits/train")`.
    """
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    items = [
        {"row": row, "pixels": digits.data[index], "label": int(digits.target[index])}
        for row, index in enumerate(order)
    ]
    held_out, rest = items[:NUM_HELD_OUT], items[NUM_HELD_OUT:]
    # A block is a task; for so few rows Ray's default of hundreds is slow.
    return (
        ray.data.from_items(rest, override_num_blocks=4),
        ray.data.from_items(held_out, override_num_blocks=2),
    )


def scale(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the batch with pixels of 0..16 scaled to -1..1."""
    return {**batch, "pixels": (batch["pixels"] / 8 - 1).astype(np.float32)}


def train_loop_per_worker(config: dict[str, float]) -> None:
    """Run on each worker: train, evaluate, report, epoch by epoch."""
    torch.manual_seed(0)
    rank = ray.train.get_context().get_world_rank()
    world_size = ray.train.get_context().get_world_size()

    train_shard = ray.train.get_dataset_shard("train")
    valid_shard = ray.train.get_dataset_shard("valid")
    # `batch_size` counts the rows of all workers: results do not depend on their number.
    batch_size = int(config["batch_size"]) // world_size

    model = prepare_model(
        nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"])
    num_done = load_checkpoint(model, optimizer)

    for epoch in range(num_done, int(config["epochs"])):
        model.train()
        # totals: loss, rows
        totals = torch.zeros(2, dtype=torch.float64, device=get_device())
        for batch in train_shard.iter_torch_batches(batch_size=batch_size):
            loss = nn.functional.cross_entropy(model(batch["pixels"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            totals[0] += loss.detach() * len(batch["label"])
            totals[1] += len(batch["label"])
        loss_sum, rows = sum_over_workers(totals)
        metrics = {
            "epoch": epoch + 1,
            "loss": loss_sum / rows,
            **evaluate(model, valid_shard, batch_size),
        }
        report(metrics, model, optimizer)
        if rank == 0:
            print(metrics)


@torch.no_grad()
def evaluate(model: nn.Module, shard: ray.data.DataIterator, batch_size: int) -> dict[str, float]:
    """Return loss and accuracy over all rows, each counted by one worker.

    `shard` is the whole dataset on each worker: Ray's split gives all workers equally many
    rows and drops the rest. The number of a row decides which worker counts it.
    """
    rank = ray.train.get_context().get_world_rank()
    world_size = ray.train.get_context().get_world_size()
    # Not the wrapped model: its ranks synchronize, and they may have other batches.
    module = unwrap(model).eval()
    # totals: loss, right answers, rows
    totals = torch.zeros(3, dtype=torch.float64, device=get_device())
    for batch in shard.iter_torch_batches(batch_size=batch_size):
        own = batch["row"] % world_size == rank
        labels = batch["label"][own]
        logits = module(batch["pixels"][own])
        totals[0] += nn.functional.cross_entropy(logits, labels, reduction="sum")
        totals[1] += (logits.argmax(dim=1) == labels).sum()
        totals[2] += len(labels)
    loss, num_right, rows = sum_over_workers(totals)
    return {"valid.loss": loss / rows, "valid.accuracy": num_right / rows}


def sum_over_workers(totals: torch.Tensor) -> list[float]:
    """Return the sum of each entry over all workers as plain numbers, as Ray requires."""
    if distributed.is_initialized():
        distributed.all_reduce(totals)
    return totals.tolist()


def unwrap(model: nn.Module) -> nn.Module:
    """Return the module itself; with one worker there is no wrapper."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def report(metrics: dict[str, float], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Report the metrics to Ray, and from rank 0 a checkpoint with them."""
    if ray.train.get_context().get_world_rank() != 0:
        ray.train.report(metrics)
        return
    # Not a TemporaryDirectory: it may be deleted before Ray has copied it.
    folder = tempfile.mkdtemp()
    state = {
        "model": unwrap(model).state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": metrics["epoch"],
    }
    torch.save(state, Path(folder) / "state.pt")
    ray.train.report(
        metrics,
        checkpoint=Checkpoint.from_directory(folder),
        delete_local_checkpoint_after_upload=True,
    )


def load_checkpoint(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load model and optimizer from the last checkpoint; return the number of finished epochs."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        state = torch.load(Path(folder) / "state.pt", map_location=get_device(), weights_only=True)
    unwrap(model).load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epoch"])


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    workers = int(os.environ.get("TRAINSHED_NUM_WORKERS", "2"))
    parser.add_argument("--num-workers", type=int, default=workers, help="one GPU or CPU each")
    parser.add_argument("--epochs", type=int, default=3, help="in all, finished ones included")
    parser.add_argument("--batch-size", type=int, default=64, help="rows of all workers together")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    args = parser.parse_args()

    # Ray polls for reports every 2 s by default, longer than an epoch takes here.
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")
    if "RAY_ADDRESS" in os.environ:
        ray.init()
    else:
        # Ray Train reserves a CPU for each worker; without more Ray Data would wait forever.
        ray.init(num_cpus=args.num_workers + NUM_DATA_CPUS)
    ray.data.DataContext.get_current().enable_progress_bars = False
    train_data, valid_data = read_digits()
    trainer = TorchTrainer(
        train_loop_per_worker,
        train_loop_config={
            "epochs": args.epochs,
            "batch_size": args.batch_size,
            "learning_rate": args.learning_rate,
        },
        scaling_config=ScalingConfig(
            num_workers=args.num_workers,
            use_gpu=ray.cluster_resources().get("GPU", 0) >= args.num_workers,
        ),
        datasets={
            # Without a seed each epoch is shuffled differently; with one all have the same order.
            "train": train_data.map_batches(scale).random_shuffle(),
            "valid": valid_data.map_batches(scale),
        },
        dataset_config=DataConfig(datasets_to_split=["train"]),
        run_config=RunConfig(
            # With the same name and storage, get_checkpoint() finds the last checkpoint.
            name=os.environ.get("TRAINSHED_RUN_NAME", "digits-ddp-ray-data"),
            storage_path=os.environ.get("TRAINSHED_STORAGE", str(Path("runs").resolve())),
            failure_config=FailureConfig(max_failures=1),
        ),
    )
    result = trainer.fit()
    print(f"{result.metrics} in {result.checkpoint.path}")


if __name__ == "__main__":
    main()
