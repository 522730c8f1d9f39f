"""What a run reports when training begins: start position, number of rows, expectations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trainshed_api.progress import ResumePoint, Started

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.loop import TrainingLoop
    from trainshed.worker.plain_function import PlainFunction


def announce(
    job: AttemptConfig,
    loop: TrainingLoop,
    plain_function: PlainFunction,
    steps: int | None,
    warn: Callable[[str], None],
) -> None:
    """Report that training begins, from which step, and the number of rows if known."""
    for refused in loop.saver.refused:
        warn(refused)
    started = Started(
        time=time.time(),
        run=job.name,
        attempt=job.attempt,
        workers=loop.saver.world_size,
        rows={name: plan.rows for name, plan in job.plans.items() if plan.rows is not None},
        epochs=job.epochs,
        steps=steps,
        folder=str(job.folder.parent.parent),
        resumed_from=_resume_point(loop, plain_function),
        step_name=loop.board.step_name,
    )
    loop.say_now([started])


def _resume_point(loop: TrainingLoop, plain_function: PlainFunction) -> ResumePoint | None:
    start, position = loop.saver.start, loop.saver.position
    if start is None:
        return plain_function.resume_point
    return ResumePoint(checkpoint=str(start), epoch=position.epoch, step=position.step)
