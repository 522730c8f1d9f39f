"""PyTorch: workers are one process group, a step is a batch of it all."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ray.train.backend import BackendConfig

    from trainshed.coordinator.actor import Coordinator
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.base_run import BaseRun


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
    from trainshed.worker.precision import set_float32_products

    lazy_compiler.leave_out()
    if job.spec.reproducible:
        reproducible.prepare()
    run = Run(job, coordinator)
    set_float32_products(job.spec.precision, run.device)
    yield run
