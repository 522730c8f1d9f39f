"""What Ray Train calls in each worker: sets the run up, calls the user's function, ends it."""

from __future__ import annotations

import logging
import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import ray.train
import torch

import trainshed
from trainshed.allocator import keep_freed_memory
from trainshed.checkpoint.state import seed_everything
from trainshed.coordinator.run_state import Failure
from trainshed.data.sources.errors import RemoteTracebackError
from trainshed.failures import RULES, InfrastructureError, classify, told
from trainshed.functions import find_training_function, takes_config
from trainshed.ray_compat.quiet_logs import quiet
from trainshed.worker.active_run import activate
from trainshed.worker.loop import StopTraining
from trainshed.worker.process_log import kept
from trainshed.worker.user_failure import UserFailureError
from trainshed_api.errors import SpecError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from trainshed.coordinator.client import Client
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.base_run import BaseRun

OURS = Path(trainshed.__file__).parent
# By where they are installed, not by name: in Ray's own images people's home is called ray.
INNER = (OURS, Path(ray.__file__).parent, Path(torch.__file__).parent)
# What is left over of a traceback when the inner frames are gone.
_OUR_NAMES = re.compile(r"^trainshed(_api)?(\.\w+)*\.(?=\w+: )", re.MULTILINE)
_NO_FRAMES = re.compile(r"^Traceback \(most recent call last\):\n(?!  File )", re.MULTILINE)


class InWorker(Protocol):
    """What a framework does in a worker's process."""

    def running(self, job: AttemptConfig, coordinator: Client) -> AbstractContextManager[BaseRun]:
        """Come together with the other ranks, and part again where all went well. A collective."""
        ...


class Worker:
    """The training function as Ray Train sees it.

    Args:
        job: what to do.
        coordinator: of the run.
        framework: by which the workers train.
    """

    def __init__(self, job: AttemptConfig, coordinator: Client, framework: InWorker) -> None:
        self._job = job
        self._coordinator = coordinator
        self._framework = framework

    def __call__(self, config: dict[str, object]) -> None:
        """Run the user's function once.

        Raises:
            UserFailureError: with what the function raised.
            InfrastructureError: with what is no fault of the function's.
        """
        job = self._job
        keep_freed_memory()
        torch.set_num_threads(job.threads)
        # Ray Train says a line for each report; the run's own events say it better.
        quiet("ray.train", logging.WARNING)
        rank = ray.train.get_context().get_world_rank()
        seed_everything(job.seed, rank)
        try:
            with kept(job.folder, rank), self._framework.running(job, self._coordinator) as run:
                self._run(run, config)
        except SpecError as error:  # before there was a run to tell it: nothing else gets here
            raise UserFailureError(summary(error)) from None

    def _run(self, run: BaseRun, config: dict[str, object]) -> None:
        activate(run)
        try:
            run.announce()
            stopped = run.wants_stop()
        except StopTraining:  # while all waited for the first rows
            stopped = True
        try:
            stopped = stopped or self._train(config)
            activate(None)
            run.finish(stopped)
        except (Exception, SystemExit) as error:
            # What follows is said by the run's own events; Ray Train would print it once more.
            quiet("ray.train", logging.CRITICAL)
            kind = classify(error) or "code"
            rule = RULES[kind]
            if rule.restarts != 0:
                raise InfrastructureError(summary(error), kind) from None
            said = told(kind, summary(error))
            failure = Failure(run.rank, run.step, said, users_traceback(error), rule.cause)
            run.fail(failure)
            raise UserFailureError(failure.summary) from None
        finally:
            activate(None)

    def _train(self, config: dict[str, object]) -> bool:
        """Call the user's function; return whether the run was asked to stop."""
        function = find_training_function(self._job.train, "spec.train")
        try:
            if takes_config(function):
                function(config)
            else:
                function()
        except StopTraining:
            return True
        except SystemExit as error:  # a script that is done says so by code 0
            if error.code:
                raise
        return False


def summary(error: BaseException) -> str:
    """Return type and message of an error on one line."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def users_traceback(error: BaseException) -> str:
    """Return the traceback without frames of ours and Ray's, so that the user's own come first."""
    text = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = text
    while part is not None:
        kept = [frame for frame in part.stack if not _is_inner(frame.filename)]
        part.stack = traceback.StackSummary.from_list(kept)
        part = part.__cause__ or part.__context__
    # What another process raised is text; the error that stands for it says nothing itself.
    printed = "".join(text.format()).replace(f"{_name(RemoteTracebackError)}: \n", "")
    return _OUR_NAMES.sub("", _NO_FRAMES.sub("", printed))


def _name(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_inner(filename: str) -> bool:
    file = Path(filename)
    if file.is_relative_to(OURS / "programs"):
        return False
    return any(file.is_relative_to(folder) for folder in INNER)
