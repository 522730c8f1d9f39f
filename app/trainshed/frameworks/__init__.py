"""Frameworks: for each how its workers come together, and what a training function is given.

One file each; `named` finds it. What a step, a state and a model file are, each says by its run:
worker/base_run.py, checkpoint/model_file.py. Never here: what the contract refuses
(trainshed_api.frameworks). docs/frameworks.md says what another one has to write.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ray.train.backend import BackendConfig

    from trainshed.coordinator.actor import Coordinator
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.base_run import BaseRun
    from trainshed_api.frameworks import FrameworkName


class Framework(Protocol):
    """The functions of a framework's module, which workers import by its name."""

    def backend(self, gpus: int) -> BackendConfig:
        """Return torch's process group, by which all frameworks agree on stops and checkpoints.

        Args:
            gpus: of each worker.
        """
        ...

    def running(
        self, job: AttemptConfig, coordinator: Coordinator
    ) -> AbstractContextManager[BaseRun]:
        """Connect with the other ranks, and disconnect after success. A collective.

        In a worker's process. Raises the framework's error for a lost peer, which failures.py
        must recognize.
        """
        ...


def named(name: FrameworkName) -> Framework:
    """Return a framework by the name that a TrainingRun gives it; imports nothing of it."""
    return cast("Framework", importlib.import_module(f"{__name__}.on_{name}"))
