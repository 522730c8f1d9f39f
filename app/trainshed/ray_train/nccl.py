"""The workers' process group on GPUs: Ray's own, but lost peers are not waited for at its end.

Ray waits up to 30 s for each goodbye (TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S), and who is lost says
none. NCCL's own goodbye may wait for its peers, too: all workers are ended after it anyway.

Private to Ray 2.60, the pinned release; tests/app/ray_train/test_process_group.py holds the seam.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ray
from ray.train.torch import TorchConfig
from ray.train.torch.config import _shutdown_torch, _TorchBackend

if TYPE_CHECKING:
    from ray.train._internal.base_worker_group import BaseWorkerGroup
    from ray.train.backend import BackendConfig

# Letting go of communicators and of the device's memory takes more than gloo's milliseconds.
SECONDS_TO_LEAVE = 2.0


class NcclBackend(_TorchBackend):
    """Joins as Ray does, and parts with a bound."""

    def on_shutdown(
        self,
        worker_group: BaseWorkerGroup,
        backend_config: BackendConfig,  # noqa: ARG002 - Ray's signature
    ) -> None:
        """Let every worker leave; waits for none that does not answer."""
        leaving = worker_group.execute_async(
            _shutdown_torch, destroy_process_group=len(worker_group) > 1
        )
        ray.wait(leaving, num_returns=len(leaving), timeout=SECONDS_TO_LEAVE)  # type: ignore[arg-type]


@dataclass
class NcclConfig(TorchConfig):
    """Asks Ray Train for the backend above."""

    @property
    def backend_cls(self) -> type[NcclBackend]:
        """Return the backend."""
        return NcclBackend
