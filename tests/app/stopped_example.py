"""README's own example, asked to stop in a step of it."""

import torch

from examples.adopt import after
from tests.app.stopped_evaluation import ask_to_stop
from trainshed.attempt.signals import Stop
from trainshed.worker.active_run import running
from trainshed.worker.current import Run

# Asked in the step after so many; None: it is not asked.
steps_before = 0
stop: Stop | None = None


def train(config: dict[str, float]) -> None:
    """Train the example as it is."""
    run = running()
    assert isinstance(run, Run)
    backward_step = run.backward_step

    def stopping(loss: torch.Tensor) -> None:
        backward_step(loss)
        if stop and run.step == steps_before:
            ask_to_stop(run, stop)

    run.backward_step = stopping  # type: ignore[method-assign, assignment]
    after.train(config)
