"""The state of a model that FSDP holds in parts: gathered whole for rank 0, taken over whole.

Everything here is a collective of all ranks. Imported only where a model is sharded: FSDP takes
seconds of a start.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

from torch.distributed.fsdp import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    StateDictType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch


def gather_weights(model: FullyShardedDataParallel) -> dict[str, torch.Tensor]:
    """Return the whole state of a model on the CPU of rank 0; nothing of use on the others."""
    with _whole(model, rank0_only=True):
        return dict(model.state_dict())


def gather_optimizer(
    model: FullyShardedDataParallel, optimizer: torch.optim.Optimizer
) -> dict[str, object]:
    """Return the whole state of a model's optimizer on the CPU of rank 0, by parameters' names."""
    with _whole(model, rank0_only=True):
        return dict(
            FullyShardedDataParallel.optim_state_dict(model, optimizer, group=model.process_group)
        )


def load_weights(model: FullyShardedDataParallel, state: Mapping[str, torch.Tensor]) -> None:
    """Take this rank's part of a whole state over, which every rank has."""
    with _whole(model, rank0_only=False):
        model.load_state_dict(state)


def load_optimizer(
    model: FullyShardedDataParallel,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, object],
) -> None:
    """Take this rank's part of an optimizer's whole state over, which every rank has."""
    with _whole(model, rank0_only=False):
        mine = FullyShardedDataParallel.optim_state_dict_to_load(
            model, optimizer, dict(state), group=model.process_group
        )
    optimizer.load_state_dict(mine)


@contextlib.contextmanager
def _whole(model: FullyShardedDataParallel, *, rank0_only: bool) -> Iterator[None]:
    """Have FSDP speak of whole states; off the device where a single rank takes them."""
    with warnings.catch_warnings():
        # FSDP sends its callers to torch.distributed.checkpoint.state_dict, whose functions make a
        # step of an optimizer that has made none yet.
        warnings.simplefilter("ignore")
        with FullyShardedDataParallel.state_dict_type(
            model,
            StateDictType.FULL_STATE_DICT,
            FullStateDictConfig(offload_to_cpu=rank0_only, rank0_only=rank0_only),
            FullOptimStateDictConfig(offload_to_cpu=rank0_only, rank0_only=rank0_only),
        ):
            yield
