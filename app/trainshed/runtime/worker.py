"""What Ray Train calls in each worker: sets the run up, calls the user's function, ends it cleanly."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import ray.train

import trainshed
from trainshed.functions import find_training_function, takes_config
from trainshed.runtime import reproducible
from trainshed.runtime.current import Run, activate
from trainshed.runtime.hub import Failure
from trainshed.runtime.loop import StopTraining
from trainshed.runtime.state import seed_everything

if TYPE_CHECKING:
    from trainshed.runtime.client import Client
    from trainshed.runtime.job import Job

OURS = str(Path(trainshed.__file__).parent)


class UserFailureError(Exception):
    """The user's function failed; not to be tried again. The message is the user's own traceback."""


class Worker:
    """The training function as Ray Train sees it.

    Args:
        job: what to do.
        coordinator: of the run.
    """

    def __init__(self, job: Job, coordinator: Client) -> None:
        self._job = job
        self._coordinator = coordinator

    def __call__(self, config: dict[str, object]) -> None:
        """Run the user's function once.

        Raises:
            UserFailureError: with what the function raised.
        """
        job = self._job
        if job.reproducible:
            reproducible.prepare(job.threads)
        rank = ray.train.get_context().get_world_rank()
        seed_everything(job.seed, rank)
        run = Run(job, self._coordinator)
        activate(run)
        run.announce()
        stopped = False
        try:
            function = find_training_function(job.train, "spec.train")
            if takes_config(function):
                function(config)
            else:
                function()
        except StopTraining:
            stopped = True
        except Exception as error:
            failure = Failure(rank, run.step, summary(error), users_traceback(error))
            self._coordinator.fail(failure)
            raise UserFailureError(failure.summary) from None
        finally:
            activate(None)
        run.finish(stopped)


def summary(error: BaseException) -> str:
    """Return type and message of an error on one line."""
    return traceback.format_exception_only(error)[-1].strip()


def users_traceback(error: BaseException) -> str:
    """Return the traceback without frames of ours and Ray's, so that the user's own come first."""
    text = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = text
    while part is not None:
        kept = [frame for frame in part.stack if not _is_inner(frame.filename)]
        part.stack = traceback.StackSummary.from_list(kept)
        part = part.__cause__ or part.__context__
    return "".join(text.format())


def _is_inner(filename: str) -> bool:
    programs = os.path.join(OURS, "programs")
    if filename.startswith(OURS):
        return not filename.startswith(programs)
    return f"{os.sep}ray{os.sep}" in filename or f"{os.sep}torch{os.sep}" in filename
