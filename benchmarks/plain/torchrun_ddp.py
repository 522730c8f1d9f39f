"""The whole job in plain PyTorch: torchrun, DistributedDataParallel and DataLoader."""

from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from benchmarks.plain.files import read_rows
from benchmarks.plain.model import build_mlp, build_optimizer, train_step


def main(*, data: str, out: str, batch_size: int, epochs: int) -> None:
    """Train, with a checkpoint after each epoch."""
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    x, y = read_rows(data)
    rows = TensorDataset(x, y)
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(rows, drop_last=True)
    loader = DataLoader(
        rows,
        batch_size=batch_size // dist.get_world_size(),
        sampler=sampler,
        drop_last=True,
    )
    model = DistributedDataParallel(build_mlp(x.shape[1], [256], 10))
    optimizer = build_optimizer(model)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for features, labels in loader:
            loss = train_step(model, optimizer, features, labels)
        if dist.get_rank() == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, Path(out) / f"epoch-{epoch}.pt")
            print(f"epoch {epoch} loss {loss.item():.4f}")
    dist.destroy_process_group()
