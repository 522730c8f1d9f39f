"""Train a network on handwritten digits: Ray Train with a PyTorch DataLoader.

    python train_ray_ddp.py --num-workers 2 --epochs 3

Plain Ray Train. Started again under the same run name it resumes after the last finished
epoch. As `entrypoint:` of a TrainingRun it reads the number of workers, the storage and the
run's name from TRAINSHED_NUM_WORKERS, TRAINSHED_STORAGE and TRAINSHED_RUN_NAME.
"""

import argparse
import os
import tempfile
from pathlib import Path

import ray
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device, prepare_data_loader, prepare_model
from sklearn.datasets import load_digits
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

NUM_HELD_OUT = 360


def read_digits() -> tuple[TensorDataset, TensorDataset]:
    """Return pictures (rows, 64) and labels (rows,) for training, and the same for evaluation."""
    digits = load_digits()
    pixels = torch.tensor(digits.data / 8 - 1, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    held_out, rest = order[:NUM_HELD_OUT], order[NUM_HELD_OUT:]
    return TensorDataset(pixels[rest], labels[rest]), TensorDataset(
        pixels[held_out], labels[held_out]
    )


def train_loop_per_worker(config: dict[str, float]) -> None:
    """Run on each worker: train, evaluate, report, epoch by epoch."""
    torch.manual_seed(0)
    rank = ray.train.get_context().get_world_rank()
    world_size = ray.train.get_context().get_world_size()

    train_data, valid_data = read_digits()
    # `batch_size` counts the rows of all workers: results do not depend on their number.
    batch_size = int(config["batch_size"]) // world_size
    train_loader = prepare_data_loader(DataLoader(train_data, batch_size, shuffle=True))
    # A DistributedSampler repeats rows until all ranks have equally many, which would
    # count some twice. Each rank takes every world_size-th row instead.
    own_rows = Subset(valid_data, range(rank, len(valid_data), world_size))
    valid_loader = prepare_data_loader(DataLoader(own_rows, batch_size), add_dist_sampler=False)

    model = prepare_model(
        nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["learning_rate"])
    num_done = load_checkpoint(model, optimizer)

    for epoch in range(num_done, int(config["epochs"])):
        if world_size > 1:
            # Without this every epoch has the same order; Ray does not call it.
            train_loader.sampler.set_epoch(epoch)
        model.train()
        # totals: loss, rows
        totals = torch.zeros(2, dtype=torch.float64, device=get_device())
        for pixels, labels in train_loader:
            loss = nn.functional.cross_entropy(model(pixels), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            totals[0] += loss.detach() * len(labels)
            totals[1] += len(labels)
        loss_sum, rows = sum_over_workers(totals)
        metrics = {
            "epoch": epoch + 1,
            "loss": loss_sum / rows,
            **evaluate(model, valid_loader),
        }
        report(metrics, model, optimizer)
        if rank == 0:
            print(metrics)


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> dict[str, float]:
    """Return loss and accuracy over the rows of all workers, each counted once."""
    # Not the wrapped model: its ranks synchronize, and they may have fewer batches.
    module = unwrap(model).eval()
    # totals: loss, right answers, rows
    totals = torch.zeros(3, dtype=torch.float64, device=get_device())
    for pixels, labels in loader:
        logits = module(pixels)
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
        ray.init(num_cpus=args.num_workers)
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
        run_config=RunConfig(
            # With the same name and storage, get_checkpoint() finds the last checkpoint.
            name=os.environ.get("TRAINSHED_RUN_NAME", "digits-ddp"),
            storage_path=os.environ.get("TRAINSHED_STORAGE", str(Path("runs").resolve())),
            failure_config=FailureConfig(max_failures=1),
        ),
    )
    result = trainer.fit()
    print(f"{result.metrics} in {result.checkpoint.path}")


if __name__ == "__main__":
    main()
