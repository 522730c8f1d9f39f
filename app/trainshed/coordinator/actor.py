"""The one actor beside the workers: it feeds them, looks after them, and knows how the run does.

It takes no CPU and lives on the driver's node, so it outlives worker groups but not the driver.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ray

from trainshed.coordinator.bad_record_limits import BadRecordLimits
from trainshed.coordinator.run_state import Failure, FunctionResult, Reported, RunState, Seconds
from trainshed.ray_compat.logs import heed, quiet
from trainshed.ray_compat.spilling import watch_spilling
from trainshed_api.progress import WarningEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ray.train import Result
    from ray.train.v2.api.reported_checkpoint import ReportedCheckpoint

    from trainshed.coordinator.data_wait import DataWaitMonitor
    from trainshed.coordinator.stage_rates import Means
    from trainshed.data.loader.data_server import DataServer, ExecutionLimits, Slice
    from trainshed.data.loader.disk_cache import DiskCache
    from trainshed.data.loader.object_store_cache import CachedBlocks
    from trainshed.data.loader.row_counts import Known
    from trainshed.data.loader.streams import Left
    from trainshed.data.sampler.bad_records import BadRecordList
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import EpochPass
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sampler.stage_time import Spending
    from trainshed.ray_compat.train_controller import TrainControllerHost
    from trainshed_api.progress import Event

# Separate threads for calls that may wait long, longer still after their worker is lost.
REPORTED_CHECKPOINTS = "reported_checkpoints"
# And for one that must get through while all others wait for rows: tasks that read wait for it.
BAD_RECORDS = "bad_records"


@dataclass(frozen=True)
class View:
    """What the driver sees: events since it last looked, and the state.

    `saves` says whether a stop writes a checkpoint, `spent` what all have spent on rows,
    `waits_for` what training waited for in all, `waits_now` what it waits for lately,
    `steps_begun` whether the function has asked for a step, and `waiting_ranks` which workers, but
    not all, wait for rows.
    """

    time: float
    events: Sequence[Event]
    groups: int
    failure: Failure | None
    ending: FunctionResult | None
    reported: Reported
    seconds: Seconds
    hosts: tuple[str, ...]
    saves: bool = False
    spent: Spending = field(default_factory=dict)
    waits_for: str | None = None
    waits_now: str | None = None
    steps_begun: bool = False
    waiting_ranks: tuple[int, ...] = ()


class Coordinator:
    """The actor of an attempt: serves rows, holds the state, and hosts Ray Train's controller."""

    def __init__(self, started: float) -> None:
        self._run_state = RunState(started)
        # Each call runs in a thread: two calls that take events must not lose any.
        self._lock = threading.Lock()
        self._passes: Mapping[str, int] = {}
        self._data_server: DataServer | None = None
        self._waits: DataWaitMonitor | None = None
        self._controller: TrainControllerHost | None = None
        self._left_out = BadRecordLimits(())

    def load(self) -> None:
        """Import what feeding and training need, while the driver still checks the run."""
        from trainshed.data.loader import data_server  # noqa: F401
        from trainshed.ray_compat import train_controller as controller  # noqa: F401

    def feed(
        self,
        plans: Mapping[str, DatasetPlan],
        limits: ExecutionLimits,
        means: Means,
        disk_cache: DiskCache | None = None,
    ) -> None:
        """Start to serve rows to the workers; disk_cache holds rows on the run's storage."""
        # First of all, and all of it: the modules of ray.train import each other in a circle, which
        # breaks when two threads enter it at different points. The DataServer's thread imports
        # modules of the user's, and what is to train is unpickled in another one.
        self.load()
        from trainshed.coordinator.data_wait import DataWaitMonitor
        from trainshed.data.loader.bad_record_reporter import BadRecordReporter
        from trainshed.data.loader.data_server import DataServer
        from trainshed.data.sampler.dataset_plan import with_reporter

        # Ray Data tells of each execution, and warns of CPUs that the next second are free again.
        quiet("ray.data", logging.CRITICAL)
        heed("ray.data", self._warn)
        watch_spilling(self._warn)
        self._waits = DataWaitMonitor(plans, means)
        reporting = {
            name: with_reporter(plan, BadRecordReporter(ray.get_runtime_context().current_actor))
            for name, plan in plans.items()
        }
        self._left_out = BadRecordLimits(tuple(plans.values()))
        self._data_server = DataServer(reporting, limits, self._warn, disk_cache)
        self._data_server.start()

    def fit(self, arguments: Mapping[str, Any], environment: Mapping[str, str]) -> Result:
        """Let Ray Train's controller train to the end.

        Args:
            arguments: of the controller.
            environment: variables that the controller reads, and hands to the workers.
        """
        # A script starts its own Ray Train controller, so this one is not imported.
        from trainshed.ray_compat.train_controller import TrainControllerHost

        os.environ.update(environment)
        self._controller = TrainControllerHost(arguments)
        return self._controller.run()

    @ray.method(concurrency_group=REPORTED_CHECKPOINTS)
    def get_all_reported_checkpoints(self, *arguments: Any) -> list[ReportedCheckpoint]:
        """Answer Ray Train's worker, which takes this actor for its controller."""
        assert self._controller
        return self._controller.get_all_reported_checkpoints(*arguments)

    def cached(self, name: str, lost: int = 0) -> CachedBlocks:
        """Return a cached dataset's blocks of a filling after a lost one; waits for them."""
        assert self._data_server
        return self._data_server.cached(name, lost)

    def counts(self, name: str) -> Indices:
        """Return the rows of each fragment of a dataset that has to be counted; waits for them."""
        assert self._data_server
        return self._data_server.counts(name)

    def known(self, at: EpochPass) -> Known:
        """Return what was known of the rows of a pass that counts them when it began."""
        assert self._data_server
        return self._data_server.known(at)

    def learn(self, name: str, counts: Mapping[int, int]) -> None:
        """Take in how many rows fragments of a dataset have."""
        assert self._data_server
        self._data_server.learn(name, counts)

    def spend(self, spending: Spending) -> None:
        """Take in what a task, or a rank, has spent on rows since it last told."""
        if self._data_server:
            self._data_server.spend(spending)

    def take(self, at: EpochPass, rank: int) -> Slice | Left | None:
        """Return the rank's next slice of a pass; waits for it."""
        assert self._data_server
        return self._data_server.take(at, rank)

    def open(self, at: EpochPass) -> None:
        """Begin a pass before its first slice is asked for."""
        assert self._data_server
        self._data_server.open(at)

    @ray.method(concurrency_group=BAD_RECORDS)
    def leave_out(self, told: BadRecordList) -> None:
        """Record the bad records that the reader of a fragment skipped.

        Raises:
            DataError: when more is left out than may be.
        """
        with self._lock:
            self._left_out.take(told)

    def join(self, step: int) -> int:
        """Take in a worker group; return its number."""
        with self._lock:
            group = self._run_state.join(time.time(), step)
            if self._waits:
                self._waits.begin(self._run_state.measured(time.time()), self._spent)
        if self._data_server:
            self._data_server.leave_before(group)
        return group

    def begin(self) -> None:
        """Take in the workers of a program."""
        self.join(0)

    def push(
        self,
        group: int,
        seconds: Mapping[str, float],
        events: Sequence[Event],
        *,
        saves: bool,
        steps_begun: bool,
    ) -> str | None:
        """Take in what rank 0 says, and whether a stop saves; return why to stop, if so.

        steps_begun: whether the function has asked for a step.
        """
        with self._lock:
            self._run_state.update(group, seconds, events)
            self._run_state.saves = saves
            self._run_state.steps_begun = steps_begun
            return self._run_state.stop_reason

    def wait(self, group: int, rank: int, step: int, world_size: int) -> bool:
        """Take in that a rank waits for rows; return whether all ranks stop there."""
        with self._lock:
            return self._run_state.wait(group, rank, step, world_size)

    def go_on(self, group: int, rank: int) -> bool:
        """Take in that a rank has the rows that it waited for; return whether all stop here."""
        with self._lock:
            return self._run_state.go_on(group, rank)

    def mark(self, group: int, step: int, at: float, seconds: Mapping[str, float]) -> None:
        """Remember the time spent up to a checkpoint."""
        with self._lock:
            self._run_state.mark(group, at, step, seconds)

    def leave(self, group: int, seconds: Mapping[str, float], ending: FunctionResult) -> None:
        """Take in the end of the training function."""
        with self._lock:
            self._run_state.leave(group, time.time(), seconds, ending)
            self._notice(time.time(), is_over=True)

    def fail(self, group: int, seconds: Mapping[str, float], failure: Failure) -> None:
        """Take in an exception of the user's; the first one is the cause."""
        with self._lock:
            self._run_state.fail(group, time.time(), seconds, failure)

    def report(self, reported: Reported, events: Sequence[Event]) -> None:
        """Take in what the user's code reported."""
        with self._lock:
            self._run_state.report(time.time(), reported, events)

    def start_over(self) -> None:
        """Take back that training was resumed: its function did not read the checkpoint."""
        with self._lock:
            self._run_state.start_over(time.time())

    def hold(self, bucket: str, seconds: float) -> None:
        """Take in how long a user's own loop was held up by something."""
        with self._lock:
            self._run_state.hold(bucket, seconds)

    def keep_passes(self, done: Mapping[str, int]) -> None:
        """Take in the passes that lie behind the report that rank 0 is about to make."""
        self._passes = dict(done)

    def passes(self) -> Mapping[str, int]:
        """Return the passes that lay behind the last report."""
        return self._passes

    def place(self, hosts: Sequence[str]) -> None:
        """Take in on which hosts the workers run."""
        self._run_state.hosts = tuple(hosts)

    def lose(self, message: str) -> None:
        """Take in that workers were lost, which start again."""
        with self._lock:
            self._run_state.lose(time.time(), message)

    def end(self) -> None:
        """Take in the end of a program's training."""
        with self._lock:
            self._run_state.end(time.time())

    def tell(self, event: Event) -> None:
        """Take in an event of somebody who is no worker."""
        with self._lock:
            self._run_state.add([event])

    def _warn(self, message: str) -> None:
        self.tell(WarningEvent(time=time.time(), message=message))

    def stop(self, reason: str) -> None:
        """Ask the run to stop."""
        self._run_state.stop_reason = reason

    def look(self) -> View:
        """Return the state and the events since the last look; one driver looks."""
        with self._lock:
            run_state, now = self._run_state, time.time()
            run_state.add(self._left_out.events(now))
            self._notice(now)
            found = self._waits and self._waits.verdict(run_state.measured(now), self._spent)
            lately = self._waits and self._waits.now
            return View(
                now,
                run_state.take(),
                run_state.groups,
                run_state.failure,
                run_state.ending,
                run_state.reported,
                run_state.seconds(now),
                run_state.hosts,
                run_state.saves,
                self._spent,
                found.message if found else None,
                lately.message if lately else None,
                run_state.steps_begun,
                run_state.waiting_ranks,
            )

    @property
    def _spent(self) -> Spending:
        return self._data_server.spent if self._data_server else {}

    def _notice(self, now: float, *, is_over: bool = False) -> None:
        """Tell what training waits for, where it is time to."""
        if self._waits is None:
            return
        said = self._waits.notice(self._run_state.measured(now), self._spent, is_over=is_over)
        if said:
            self._run_state.add([WarningEvent(time=now, message=said)])
