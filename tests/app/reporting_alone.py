"""Training functions with loops of their own that report as Ray Train has workers do."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import ray.train
from ray.train.v2._internal.execution.training_report import _TrainingReport

import trainshed
from tests.app.stopped_evaluation import ask_to_stop
from trainshed.attempt.signals import Stop
from trainshed.ray_train.report_relay import HeldUp, ReportRelay
from trainshed.storage.disk import Disk
from trainshed.worker.active_run import running

if TYPE_CHECKING:
    from trainshed.worker.current import Run

# Asked in this step; None: it is not asked.
STEP, STEPS = 3, 9
stop: Stop | None = None
# In which steps a checkpoint is saved.
saves: tuple[int, ...] = ()
# Whether the attempt begins with a checkpoint of the function's own.
resumes = False
# The steps that were done.
done: list[int] = []


def train() -> None:
    """Report each step."""
    run = cast("Run", running())
    coordinator = run._loop._coordinator
    if resumes:
        run.plain_function.checkpoint = Disk(Path("checkpoint_own"))
    worker, controller = HeldUp(coordinator), ReportRelay(coordinator)
    for step in range(1, STEPS + 1):
        done.append(step)
        if stop and step == STEP:
            ask_to_stop(run, stop)
        metrics: dict[str, object] = {"step": step, "loss": 1 / step}
        with worker.on_report(), transfer(worker, is_saved=step in saves):
            controller.after_report(_TrainingReport(None, metrics, validation=False), [metrics])
            ray.train.report(metrics)


def train_and_return() -> None:
    """Return after the step in which it is asked to stop; report nothing."""
    run = trainshed.current()
    for step in range(1, STEPS + 1):
        done.append(step)
        if stop and step == STEP:
            ask_to_stop(run, stop)
        if run.wants_stop():
            return


@contextlib.contextmanager
def transfer(worker: HeldUp, *, is_saved: bool) -> Iterator[None]:
    """Transfer a checkpoint where one is saved."""
    with worker.on_checkpoint_transfer() if is_saved else contextlib.nullcontext():
        yield
