"""BatchNorm over the rows of all workers rather than those of each one's slice of a step."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from trainshed.checkpoint.wrapping import UnsupportedWrapperError, sharded

ALONE = (
    "spec.syncBatchNorm: PyTorch shares statistics between accelerators alone: on CPUs those of "
    "each worker are of its own rows"
)


def share_statistics(model: torch.nn.Module, num_ranks: int, device: str) -> str | None:
    """Have the BatchNorm layers of a model take statistics over all ranks, in place.

    Parameters and buffers stay the same objects, which DistributedDataParallel and optimizers hold.

    Args:
        model: wrapped or not.
        num_ranks: number of workers.
        device: type of the device that it is on.

    Returns:
        What to say where that cannot be; None where it is done, or nothing has to be.

    Raises:
        UnsupportedWrapperError: for FSDP, which has taken the layers' weights already.
    """
    if num_ranks == 1 or not any(_is_apart(module) for module in model.modules()):
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


def _is_apart(module: torch.nn.Module) -> bool:
    return isinstance(module, _BatchNorm) and not isinstance(module, torch.nn.SyncBatchNorm)
