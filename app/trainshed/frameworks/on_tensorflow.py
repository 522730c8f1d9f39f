"""TensorFlow: workers mirror one Keras model, a step is a batch of it all."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import ray.train.torch

from trainshed.planning.machine import check_framework, use_keras_2

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
    """Form TensorFlow's cluster; who leaves is ended by Ray."""
    check_framework("tensorflow", in_cluster=True)
    use_keras_2()
    import tensorflow as tf

    from trainshed.keras import tf_config
    from trainshed.keras.keras_run import KerasRun

    tf_config.prepare(job.threads, has_gpu=ray.train.torch.get_device().type == "cuda")
    # Ranks draw numbers of their own, such as what a dropout leaves out; a model's first
    # weights are rank 0's on all.
    tf.keras.utils.set_random_seed(job.spec.seed + ray.train.get_context().get_world_rank())
    if job.spec.reproducible:
        tf.config.experimental.enable_op_determinism()
    yield KerasRun(job, coordinator)
