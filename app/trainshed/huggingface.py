"""A callback for functions that train with Hugging Face's Trainer on Ray Train.

Transformers is not among the requirements; importing this module needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ray.train.huggingface.transformers import RayTrainReportCallback

from trainshed.worker.active_run import running

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments


class TransformersReportCallback(RayTrainReportCallback):
    """Ray's callback, which reports each checkpoint; also saves one after a step to stop.

    Without a run of Trainshed's it is Ray's callback.
    """

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002 - the signature of transformers
        state: TrainerState,  # noqa: ARG002
        control: TrainerControl,
        **kwargs: object,  # noqa: ARG002
    ) -> None:
        """Have the Trainer save if the run was asked to stop; the report that follows stops it."""
        run = running()
        if run is not None and run.wants_stop():
            control.should_save = True
