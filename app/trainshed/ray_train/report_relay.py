"""Passes on what users report to Ray Train, from Ray Train's own processes to the coordinator.

For functions that never ask for `trainshed.current()`, and for scripts that start Ray Train by
themselves. Nothing here may raise: Ray Train ends a run whose callback does. The interfaces of
callbacks are private to Ray 2.60 (the pinned release); tests/app/ray_train/test_relay.py holds
them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import ray
import ray.train
from pyarrow.fs import LocalFileSystem
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.execution.callback import (
    ControllerCallback,
    ReportCallback,
    TrainContextCallback,
    WorkerCallback,
    WorkerGroupCallback,
)
from ray.train.v2._internal.execution.failure_handling import FailureDecision

from trainshed.checkpoint import pass_counter, ray_snapshot
from trainshed.checkpoint.store import is_ours
from trainshed.coordinator.client import client_of
from trainshed.coordinator.ray_reports import events_of, reported
from trainshed.ray_compat.checkpoint_reads import CheckpointReads
from trainshed.ray_compat.logs import quiet
from trainshed.storage.addresses import open_folder
from trainshed.storage.arrow_filesystem import as_ray_has_it
from trainshed.storage.disk import Disk
from trainshed.storage.run_folder import RAY_FOLDER
from trainshed.worker.active_run import running
from trainshed.worker.phase_timer import CHECKPOINTING
from trainshed_api.names import ENV_RUN_NAME, ENV_STORAGE
from trainshed_api.progress import WarningEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ray.train.v2._internal.execution.context import TrainRunContext
    from ray.train.v2._internal.execution.training_report import _TrainingReport
    from ray.train.v2._internal.execution.worker_group import WorkerGroup
    from ray.train.v2._internal.execution.worker_group.poll import WorkerGroupPollStatus
    from ray.train.v2.api.result import Result

    from trainshed.coordinator.actor import Coordinator
    from trainshed.storage.folder import Folder

# Where a script's callbacks find the coordinator of its run: <namespace>/<name of the actor>.
ENV_COORDINATOR = "TRAINSHED_COORDINATOR"

logger = logging.getLogger(__name__)


@dataclass
class CoordinatorLink:
    """The way to the coordinator from any process of the run.

    Args:
        coordinator: None looks it up by the name in this process's environment when it is first
            needed, which may be in another process than this one.
    """

    coordinator: Coordinator | None = None
    name: str = field(default_factory=lambda: os.environ.get(ENV_COORDINATOR, ""))

    def call(self, say: Callable[[Coordinator], None]) -> None:
        """Say something to the coordinator; whatever goes wrong is logged and over."""
        try:
            if self.coordinator is None:
                namespace, _, name = self.name.partition("/")
                self.coordinator = client_of(ray.get_actor(name, namespace))
            say(self.coordinator)
        except Exception:  # Ray Train would end the run for it
            logger.exception("a report was not passed on")


class ReportRelay(ReportCallback):
    """Tells the coordinator what the user's code reports; runs in Ray Train's controller.

    Args:
        coordinator: of the run.
        checkpoints: where those of this attempt lie; None: as the environment of a script says.
    """

    def __init__(
        self, coordinator: Coordinator | None = None, checkpoints: Folder | None = None
    ) -> None:
        self._line = CoordinatorLink(coordinator)
        storage = os.environ.get(ENV_STORAGE)
        if checkpoints is None and storage:
            checkpoints = open_folder(storage) / RAY_FOLDER
        self._checkpoints = checkpoints
        self._has_warned = False

    def after_report(
        self, training_report: _TrainingReport, metrics: Sequence[Mapping[str, object]]
    ) -> None:
        """Pass rank 0's report on, unless it is one that the runtime made."""

        def say(coordinator: Coordinator) -> None:
            checkpoint = training_report.checkpoint
            if checkpoint and is_ours(PurePath(checkpoint.path).name):
                return
            kept = folder_of(checkpoint, self._checkpoints) if checkpoint else None
            # First of all, because the driver may end a run that was asked to stop at its report.
            if kept and (done := coordinator.passes()):
                pass_counter.write(kept, done)
            path = checkpoint.path if checkpoint else None
            report = reported(metrics[0], str(kept) if kept else path)
            events = events_of(report, time.time())
            known = self._checkpoints
            is_outside = path and known is not None and not is_inside(PurePath(path), known)
            if path and is_outside and not self._has_warned:
                self._has_warned = True
                events = [WarningEvent(time=time.time(), message=_say_outside(path)), *events]
            if events:
                coordinator.report(report, events)

        self._line.call(say)


class HeldUp(TrainContextCallback):
    """Measures how long training stands still for a user's checkpoint, and stops at a report.

    Runs in each worker.

    Args:
        coordinator: of the run.
    """

    def __init__(self, coordinator: Coordinator | None = None) -> None:
        self._line = CoordinatorLink(coordinator)
        self._reporting: int | None = None
        self._transfers = 0

    @contextlib.contextmanager
    def on_report(self) -> Iterator[None]:
        """Remember the thread that reports, which is the one that trains; then stop if asked to.

        Raises:
            StopTraining: when the run was asked to stop and its function steps by itself.
        """
        self._reporting, before = threading.get_ident(), self._transfers
        try:
            yield
        finally:
            self._reporting = None
        run = running()
        if run:  # none in a script, which has its own way with signals
            has_saved = self._transfers > before
            run.stop_at_report(saves=bool(self._transfers), has_saved=has_saved)

    @contextlib.contextmanager
    def on_checkpoint_transfer(self) -> Iterator[None]:
        """Measure a transfer, unless a thread makes it while training continues."""
        self._transfers += 1
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began

        def say(coordinator: Coordinator) -> None:
            if ray.train.get_context().get_world_rank() == 0:
                coordinator.hold(CHECKPOINTING, seconds)

        if threading.get_ident() == self._reporting:
            self._line.call(say)


class UnreadCheckpoint(WorkerCallback, TrainContextCallback):
    """Says in each worker of a script that it left an earlier attempt's checkpoint unread.

    Args:
        coordinator: of the run.
    """

    def __init__(self, coordinator: Coordinator | None = None) -> None:
        self._line = CoordinatorLink(coordinator)
        self._reads: CheckpointReads | None = None

    def after_init_train_context(self) -> None:
        """Look whether rank 0, which may load for all, has such a checkpoint to read."""
        checkpoint = ray.train.get_checkpoint()
        is_first = ray.train.get_context().get_world_rank() == 0
        if is_first and checkpoint and PurePath(checkpoint.path).name == ray_snapshot.LINKED:
            self._reads = CheckpointReads()

    @contextlib.contextmanager
    def on_report(self) -> Iterator[None]:
        """Take back before the first report that training was resumed, if it was not."""
        reads, self._reads = self._reads, None
        if reads and not reads.any:
            self._line.call(lambda coordinator: coordinator.start_over())
        yield


class ScriptRelay(ReportRelay, WorkerGroupCallback, ControllerCallback):
    """A ReportRelay that also says when a script's workers begin, are lost and end.

    Ray Train makes it in the script's process, because RAY_TRAIN_CALLBACKS names it, and sends it
    to its controller.
    """

    def __init__(self, coordinator: Coordinator | None = None) -> None:
        super().__init__(coordinator)
        self._lost = ""

    def after_worker_group_training_start(self, worker_group: WorkerGroup) -> None:  # noqa: ARG002
        """Say that the workers begin."""
        self._line.call(lambda coordinator: coordinator.begin())

    def after_worker_group_poll_status(self, worker_group_status: WorkerGroupPollStatus) -> None:
        """Remember why workers were lost."""
        errors = worker_group_status.errors
        if errors:
            ranks = ", ".join(str(rank) for rank in sorted(errors))
            self._lost = f"lost worker {ranks}: {first_line(next(iter(errors.values())))}"

    def before_controller_execute_failure_decision(self, failure_decision: FailureDecision) -> None:
        """Say that workers were lost when they are to start again."""
        message, self._lost = self._lost or "lost the workers", ""
        if failure_decision == FailureDecision.RETRY:
            self._line.call(lambda coordinator: coordinator.lose(message))

    def after_controller_finish(self, result: Result) -> None:  # noqa: ARG002
        """Say that training is over."""
        self._line.call(lambda coordinator: coordinator.end())


class QuietController(ControllerCallback):
    """Keeps Ray Train's controller from the console: the run's events say what it would.

    On a busy machine it prints whole tracebacks of requests that were late and are repeated.
    """

    def after_controller_start(self, train_run_context: TrainRunContext) -> None:  # noqa: ARG002
        """Let only its log files have what it says."""
        quiet("ray.train", logging.CRITICAL)


class NoCleaner(ControllerCallback):
    """Keeps Ray Train from starting a PlacementGroupCleaner; for Ray without a dashboard.

    The cleaner asks the dashboard each second whether the controller lives, and without one it can
    only complain, each second. Must come before Ray Train's own callbacks.
    """

    def after_controller_start(self, train_run_context: TrainRunContext) -> None:  # noqa: ARG002
        """Make the cleaner's hooks do nothing in this process, the controller's own."""
        for hook in ("after_controller_start", "after_worker_group_start"):
            setattr(PlacementGroupCleanerCallback, hook, lambda *_: None)


def folder_of(checkpoint: ray.train.Checkpoint, known: Folder | None) -> Folder | None:
    """Return where a checkpoint lies; None in a bucket of a script's own: Ray does not say which.

    known: where those of the attempt lie.
    """
    path = Path(checkpoint.path)
    if known is not None and is_inside(path, known):
        return known / path.name
    return Disk(path) if isinstance(checkpoint.filesystem, LocalFileSystem) else None


def is_inside(checkpoint: PurePath, known: Folder) -> bool:
    """Return whether a checkpoint is among those of the attempt."""
    return PurePath(as_ray_has_it(known)[1]) == checkpoint.parent


def _say_outside(path: str) -> str:
    return (
        f"the script writes its checkpoints to {PurePath(path).parent}, outside the run's storage: "
        "a later attempt does not resume from them. Set "
        f'RunConfig(storage_path=os.environ["{ENV_STORAGE}"], name=os.environ["{ENV_RUN_NAME}"])'
    )


def first_line(error: BaseException) -> str:
    """Return the first line that an error says, else its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
