"""The state of a model sharded by FSDP: gathered on rank 0, and loaded from the whole.

Every function is a collective of all ranks. Imported only if a model is sharded: importing FSDP
takes seconds.
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
    """Return the whole state of a model on the CPU of rank 0; undefined on other ranks."""
    with _whole(model, rank0_only=True):
        return dict(model.state_dict())


def gather_optimizer(
    model: FullyShardedDataParallel, optimizer: torch.optim.Optimizer
) -> dict[str, object]:
    """Return the whole state of a model's optimizer on the CPU of rank 0, by parameter names."""
    with _whole(model, rank0_only=True):
        return dict(
            FullyShardedDataParallel.optim_state_dict(model, optimizer, group=model.process_group)
        )


def load_weights(model: FullyShardedDataParallel, state: Mapping[str, torch.Tensor]) -> None:
    """Load this rank's shard from a whole state that every rank has."""
    with _whole(model, rank0_only=False):
        model.load_state_dict(state)


def load_optimizer(
    model: FullyShardedDataParallel,
    optimizer: torch.optim.Optimizer,
    state: Mapping[str, object],
) -> None:
    """Load this rank's shard of an optimizer from a whole state that every rank has."""
    with _whole(model, rank0_only=False):
        mine = FullyShardedDataParallel.optim_state_dict_to_load(
            model, optimizer, dict(state), group=model.process_group
        )
    optimizer.load_state_dict(mine)


@contextlib.contextmanager
def _whole(model: FullyShardedDataParallel, *, rank0_only: bool) -> Iterator[None]:
    """Make FSDP return whole states, on the CPU where a single rank gets them."""
    with warnings.catch_warnings():
        # FSDP recommends torch.distributed.checkpoint.state_dict instead, whose functions make a
        # step
        # with an optimizer that has not stepped yet.
        warnings.simplefilter("ignore")
        with FullyShardedDataParallel.state_dict_type(
            model,
            StateDictType.FULL_STATE_DICT,
            FullStateDictConfig(offload_to_cpu=rank0_only, rank0_only=rank0_only),
            FullOptimStateDictConfig(offload_to_cpu=rank0_only, rank0_only=rank0_only),
        ):
            yield
