"""PyTorch: workers are one process group, a step is a batch of it all."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from ray.train.backend import BackendConfig

    from trainshed.coordinator.actor import Coordinator
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.base_run import BaseRun
    from trainshed_api.v1alpha1 import Precision

# Whether GPUs round the products of a precision.
_ROUNDS_PRODUCTS = {"tensorfloat32": True, "float32": False}


def backend(gpus: int) -> BackendConfig:
    """Return NCCL's group on GPUs, gloo's on CPUs."""
    if gpus:
        from trainshed.ray_train.nccl import NcclConfig

        return NcclConfig()
    from trainshed.ray_train.gloo import GlooConfig

    return GlooConfig()


@contextmanager
def running(job: AttemptConfig, coordinator: Coordinator) -> Iterator[BaseRun]:
    """Set torch up; Ray Train's backend has made the group and ends it."""
    from trainshed.worker import lazy_compiler, reproducible
    from trainshed.worker.current import Run

    lazy_compiler.leave_out()
    if job.spec.reproducible:
        reproducible.prepare()
    run = Run(job, coordinator)
    set_float32_products(job.spec.precision, run.device)
    yield run


def set_float32_products(precision: Precision, device: torch.device) -> None:
    """Enable or disable TensorFloat32 on GPUs; before the user's function.

    torch uses it in convolutions by default, so float32 disables it. Half precisions keep torch's
    setting for what autocast leaves in float32, and CPUs do not round.
    """
    import torch

    rounds = _ROUNDS_PRODUCTS.get(precision)
    if device.type != "cuda" or rounds is None:
        return
    # Uses the older of torch's two interfaces: the newer one works after it, but the older one
    # cannot read what was set by the newer one, and users' code still calls it.
    torch.backends.cuda.matmul.allow_tf32 = rounds
    torch.backends.cudnn.allow_tf32 = rounds
