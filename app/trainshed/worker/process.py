"""The function that Ray Train calls in each worker: sets up the run, calls the user's function."""

from __future__ import annotations

import logging
import re
import traceback
from dataclasses import dataclass
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
from trainshed.ray_compat.logs import quiet
from trainshed.worker.active_run import activate
from trainshed.worker.loop import StopTraining
from trainshed.worker.process_log import kept
from trainshed.worker.user_failure import UserFailureError
from trainshed_api.errors import SpecError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from trainshed.coordinator.actor import Coordinator
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.base_run import BaseRun

OURS = Path(trainshed.__file__).parent
# By install location, not by name: in Ray's images the home folder is called ray.
INNER = (OURS, Path(ray.__file__).parent, Path(torch.__file__).parent)
# The rest of a traceback without the inner frames.
_OUR_NAMES = re.compile(r"^trainshed(_api)?(\.\w+)*\.(?=\w+: )", re.MULTILINE)
_NO_FRAMES = re.compile(r"^Traceback \(most recent call last\):\n(?!  File )", re.MULTILINE)


class InWorker(Protocol):
    """The part of a framework in a worker's process."""

    def running(
        self, job: AttemptConfig, coordinator: Coordinator
    ) -> AbstractContextManager[BaseRun]:
        """Connect with the other ranks, and disconnect after success. A collective."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Worker:
    """The training function that Ray Train calls.

    Args:
        job: what to do.
        coordinator: of the run.
        framework: that the workers train with.
    """

    job: AttemptConfig
    coordinator: Coordinator
    framework: InWorker

    def __call__(self, config: dict[str, object]) -> None:
        """Run the user's function once.

        Raises:
            UserFailureError: with what the function raised.
            InfrastructureError: for failures that are not the function's.
        """
        job = self.job
        keep_freed_memory()
        torch.set_num_threads(job.threads)
        # Ray Train logs a line for each report; the run's events replace it.
        quiet("ray.train", logging.WARNING)
        rank = ray.train.get_context().get_world_rank()
        seed_everything(job.spec.seed, rank)
        try:
            with kept(job.folder, rank), self.framework.running(job, self.coordinator) as run:
                self._run(run, config)
        except SpecError as error:  # raised before there was a run to report it
            raise UserFailureError(summary(error)) from None

    def _run(self, run: BaseRun, config: dict[str, object]) -> None:
        activate(run)
        try:
            run.announce()
            stopped = run.wants_stop()
        except StopTraining:  # while all ranks waited for the first rows
            stopped = True
        try:
            stopped = stopped or self._train(config) or run.returned_for_stop
            activate(None)
            run.finish(stopped)
        except (Exception, SystemExit) as error:
            # The run's events report it; Ray Train would print it again.
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
        function = find_training_function(self.job.train, "spec.train")
        try:
            if takes_config(function):
                function(config)
            else:
                function()
        except StopTraining:
            return True
        except SystemExit as error:  # a script may end with code 0
            if error.code:
                raise
        return False


def summary(error: BaseException) -> str:
    """Return type and message of an error on one line."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def users_traceback(error: BaseException) -> str:
    """Return the traceback without frames of Trainshed and Ray, so that the user's come first."""
    text = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = text
    while part is not None:
        kept = [frame for frame in part.stack if not _is_inner(frame.filename)]
        part.stack = traceback.StackSummary.from_list(kept)
        part = part.__cause__ or part.__context__
    # An error of another process is text; the exception that carries it has no message.
    printed = "".join(text.format()).replace(f"{_name(RemoteTracebackError)}: \n", "")
    return _OUR_NAMES.sub("", _NO_FRAMES.sub("", printed))


def _name(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_inner(filename: str) -> bool:
    file = Path(filename)
    if file.is_relative_to(OURS / "programs"):
        return False
    return any(file.is_relative_to(folder) for folder in INNER)
