"""The run and its command line: Ray Data feeds Ray Train feeds PyTorch, XGBoost or TensorFlow.

Lives here: everything that runs where the training runs. Never here: kopf, the Kubernetes client.
Inside a training function, `trainshed.current()` is the whole interface for PyTorch,
`trainshed.boosting.current()` for XGBoost and `trainshed.keras.current()` for TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed.jobs.cluster_error import ClusterError
    from trainshed.predict.trained_model import TrainedModel
    from trainshed.training_run import TrainingFailedError, TrainingRun
    from trainshed.worker.current import Run
    from trainshed_api.errors import SpecError
    from trainshed_api.v1alpha1 import TrainingRunSpec
else:
    _MODULES = {
        "ClusterError": "trainshed.jobs.cluster_error",
        "SpecError": "trainshed_api.errors",
        "TrainingFailedError": "trainshed.training_run",
        "TrainingRun": "trainshed.training_run",
        "TrainingRunSpec": "trainshed_api.v1alpha1",
    }

    def __getattr__(name: str) -> object:
        """Import a class when it is first used: a training function needs none of them."""
        if name not in _MODULES:
            raise AttributeError(f"module trainshed has no attribute {name}")
        return getattr(importlib.import_module(_MODULES[name]), name)


__version__ = "0.1.0"
__all__ = [
    "ClusterError",
    "SpecError",
    "TrainingFailedError",
    "TrainingRun",
    "TrainingRunSpec",
    "current",
    "load",
]


def current() -> Run:
    """Return the run this training function belongs to.

    Raises:
        RuntimeError: outside a training function that Trainshed started.
    """
    from trainshed.worker.active_run import active
    from trainshed.worker.current import Run

    return active(Run)


def load(run: str, device: str | None = None) -> TrainedModel:
    """Return the trained model of a run: the best checkpoint if the run names one, or the newest.

    Args:
        run: a run's name, its TrainingRun file, or the path or address of its folder or of a
            checkpoint.
        device: of a PyTorch model, such as "cpu"; by default the GPU if there is one.

    Raises:
        SpecError: if there is no such checkpoint, or it lacks what prediction needs.
    """
    from trainshed.predict.trained_model import load_model

    return load_model(run, device)
