"""XGBoost: workers form a second group besides torch's; a step is a round over all rows."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainshed.planning.machine import check_framework

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ray.train.backend import BackendConfig

    from trainshed.coordinator.actor import Coordinator
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.base_run import BaseRun


def backend(gpus: int) -> BackendConfig:  # noqa: ARG001 - it brings NCCL
    """Return gloo's group."""
    from trainshed.ray_train.gloo import GlooConfig

    return GlooConfig()


@contextmanager
def running(job: AttemptConfig, coordinator: Coordinator) -> Iterator[BaseRun]:
    """Form XGBoost's group."""
    check_framework("xgboost", in_cluster=True)
    from trainshed.boosting.boosting_run import BoostingRun
    from trainshed.boosting.collective import joined

    run = BoostingRun(job, coordinator)
    with joined(run.control, run.rank, run.world_size):
        yield run
