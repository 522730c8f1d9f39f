"""What Ray Train starts beside a run, started once the run is under way; in its controller.

Each is a process that imports Ray: two seconds of a core, while the workers and the data want all
of them. On a head with two cores a run's first step came the later for it.

Private to Ray 2.60, the pinned release; tests/app/ray_train/test_later.py holds the seams.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from ray.train.v2._internal.callbacks import state_manager as callbacks
from ray.train.v2._internal.callbacks.preemption_callback import PreemptionCallback
from ray.train.v2._internal.callbacks.state_manager import StateManagerCallback
from ray.train.v2._internal.state.schema import RunStatus
from ray.train.v2._internal.state.state_actor import get_or_create_state_actor, get_state_actor
from ray.train.v2._internal.state.state_manager import TrainStateManager

if TYPE_CHECKING:
    from ray.train.v2._internal.execution.context import TrainRunContext
    from ray.train.v2._internal.execution.worker_group import WorkerGroup
    from ray.train.v2._internal.state.schema import TrainRun, TrainRunAttempt

# After the workers' processes have started. They import torch and join then, and on two cores that
# have much to do their first step takes about as long.
SECONDS_LATER = 15.0


class DeferredDrainWatcher(PreemptionCallback):
    """Looks for nodes that are drained; one that was before it looks is seen all the same."""

    _coming: asyncio.TimerHandle | None = None

    def after_worker_group_start(self, worker_group: WorkerGroup) -> None:
        """Start the watcher of these workers later."""
        self._stop_watcher()
        start = super().after_worker_group_start
        self._coming = asyncio.get_running_loop().call_later(SECONDS_LATER, start, worker_group)

    def _stop_watcher(self) -> None:
        if self._coming:
            self._coming.cancel()
            self._coming = None
        super()._stop_watcher()


class DeferredStateExport(StateManagerCallback):
    """Tells the dashboard of the run; where nobody keeps that yet, somebody is started for it."""

    def after_controller_start(self, train_run_context: TrainRunContext) -> None:
        """Tell of the run, or remember to."""
        if get_state_actor() is None:
            callbacks.TrainStateManager = DeferredStateManager  # type: ignore[attr-defined]  # imported
        super().after_controller_start(train_run_context)

    def after_worker_group_start(self, worker_group: WorkerGroup) -> None:
        """Tell of the workers, or remember to."""
        super().after_worker_group_start(worker_group)
        if isinstance(manager := self._state_manager, DeferredStateManager):
            asyncio.get_running_loop().call_later(SECONDS_LATER, manager.begin)


class DeferredStateManager(TrainStateManager):
    """Keeps to itself how the run does until it begins to tell, or the run is over."""

    def __init__(self) -> None:  # Ray's own starts an actor, and then waits for it
        self._runs: dict[str, TrainRun] = {}
        self._run_attempts: dict[str, dict[str, TrainRunAttempt]] = defaultdict(dict)
        self._has_begun = False
        self._waits = True

    def begin(self) -> None:
        """Tell all that is known, and from now on everything at once."""
        if self._has_begun:
            return
        self._state_actor = get_or_create_state_actor()
        self._has_begun = True
        for run in self._runs.values():
            self._create_or_update_train_run(run)
        for attempts in self._run_attempts.values():
            for attempt in attempts.values():
                self._create_or_update_train_run_attempt(attempt)

    def _create_or_update_train_run(self, run: TrainRun, *, block: bool = False) -> None:
        if run.status.is_terminal() and not self._has_begun:
            # To wait for a process that only starts would keep the cause of a failure from its user
            # for seconds. Where the driver ends first, the dashboard has the job and not this run.
            self._waits = run.status is not RunStatus.ERRORED
            self.begin()
        if self._has_begun:
            super()._create_or_update_train_run(run, block=block and self._waits)

    def _create_or_update_train_run_attempt(
        self, run_attempt: TrainRunAttempt, *, block: bool = False
    ) -> None:
        if self._has_begun:
            super()._create_or_update_train_run_attempt(run_attempt, block=block and self._waits)
