"""The workers' process group on CPUs, set up without torch in Ray Train's controller.

Ray's own TorchConfig makes the controller import torch, two seconds of a core at each start, only
to send functions to the workers. On GPUs Ray's is used (nccl.py): NCCL wants what Ray knows of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import ray
import ray.train
from ray.train.backend import Backend, BackendConfig

from trainshed.ray_train.lost_workers import SECONDS_TO_LEAVE
from trainshed.worker.address import free_address

if TYPE_CHECKING:
    from ray.train._internal.base_worker_group import BaseWorkerGroup

# As Ray's TorchConfig has it.
TIMEOUT_SECONDS = 1800


class GlooBackend(Backend):
    """Joins the workers of a group by gloo and parts them again."""

    def on_start(
        self,
        worker_group: BaseWorkerGroup,
        backend_config: BackendConfig,  # noqa: ARG002 - Ray's signature
    ) -> None:
        """Let every worker join; waits for all."""
        address, port = worker_group.execute_single(0, free_address)
        ranks = range(len(worker_group))
        joining = [
            worker_group.execute_single_async(rank, join, address=address, port=port)
            for rank in ranks
        ]
        ray.get(joining)  # type: ignore[arg-type]  # Ray has two types named ObjectRef

    def on_shutdown(
        self,
        worker_group: BaseWorkerGroup,
        backend_config: BackendConfig,  # noqa: ARG002 - Ray's signature
    ) -> None:
        """Let every worker leave; waits for none that does not answer, all are ended after it."""
        leaving = worker_group.execute_async(leave)
        ray.wait(leaving, num_returns=len(leaving), timeout=SECONDS_TO_LEAVE)  # type: ignore[arg-type]


@dataclass
class GlooConfig(BackendConfig):
    """Asks Ray Train for the gloo backend above."""

    @property
    def backend_cls(self) -> type[GlooBackend]:
        """Return the backend."""
        return GlooBackend


def join(address: str, port: int) -> None:
    """Join the group; sets the variables that torchrun sets, which users' code may read."""
    import torch.distributed

    context = ray.train.get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    os.environ.update(
        {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(port),
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_RANK": str(context.get_local_rank()),
            "LOCAL_WORLD_SIZE": str(context.get_local_world_size()),
            "NODE_RANK": str(context.get_node_rank()),
        }
    )
    torch.distributed.init_process_group(
        "gloo", rank=rank, world_size=world_size, timeout=timedelta(seconds=TIMEOUT_SECONDS)
    )


def leave() -> None:
    """Leave the group, if this worker is in one."""
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
