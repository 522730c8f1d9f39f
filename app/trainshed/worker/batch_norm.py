"""BatchNorm over the rows of all workers instead of each worker's slice of a step."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from trainshed.checkpoint.wrapping import UnsupportedWrapperError, sharded

ALONE = (
    "spec.syncBatchNorm: PyTorch synchronizes statistics between accelerators only: on CPUs each "
    "worker has the statistics of its rows"
)


def share_statistics(model: torch.nn.Module, world_size: int, device: str) -> str | None:
    """Make the BatchNorm layers of a model use statistics over all ranks, in place.

    Parameters and buffers stay the same objects, which DistributedDataParallel and optimizers use.

    Args:
        model: wrapped or not.
        world_size: number of workers.
        device: its type.

    Returns:
        A warning if that is not possible; None if it is done, or not needed.

    Raises:
        UnsupportedWrapperError: for FSDP, which has already taken the layers' weights.
    """
    apart = (
        isinstance(module, _BatchNorm) and not isinstance(module, torch.nn.SyncBatchNorm)
        for module in model.modules()
    )
    if world_size == 1 or not any(apart):
        return None
    if device == "cpu":
        return ALONE
    if sharded(model):
        raise UnsupportedWrapperError(
            "track: spec.syncBatchNorm: FSDP has taken the weights of BatchNorm layers already; "
            "call torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) before FSDP, or leave "
            "syncBatchNorm out"
        )
    torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
    return None
