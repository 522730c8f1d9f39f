"""Executions of Ray Data that follow each other: the next one takes what the one before leaves.

The last tasks of a pass leave CPUs idle, and Ray Data needs a tenth of a second to begin another.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ray.data import ExecutionResources
from ray.data._internal.execution.execution_callback import ExecutionCallback

from trainshed.ray_compat.execution import watched_by
from trainshed.ray_compat.output_backpressure import output_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ray.data import Dataset
    from ray.data._internal.execution.streaming_executor import StreamingExecutor

# Of a dataset's context, which tasks are given a copy of: where its course is found.
_KEY = "trainshed-course"


@dataclass(eq=False)
class ExecutionBudget:
    """What an execution takes of CPUs and memory, for the one that follows it.

    Args:
        cpus: that it may take.
        task_cpus: that each of its tasks takes.
        before: the one that it follows, which may still go on.
    """

    cpus: int
    task_cpus: int = 1
    before: ExecutionBudget | None = None
    _takes: ExecutionResources = field(default_factory=ExecutionResources.zero)
    _queued: Callable[[], int] = int  # which returns 0
    _is_over: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _may_be_followed: threading.Event = field(default_factory=threading.Event)

    @property
    def takes(self) -> ExecutionResources:
        """Return what it takes, and those before it."""
        before, memory = self.before, self._takes.object_store_memory + self._queued()
        own = self._takes.copy(object_store_memory=memory)
        return own.add(before.takes) if before else own

    def wait(self) -> None:
        """Return once its last task has begun and there are CPUs for another, or it is over."""
        self._may_be_followed.wait()

    def take(self, takes: ExecutionResources, *, has_begun_all: bool) -> None:
        """Take in what it takes now, and whether its last task has begun."""
        with self._lock:
            if self._is_over:  # Ray Data's loop may end after what it was asked for
                return
            self._takes = takes
        if has_begun_all and self.cpus - self.takes.cpu >= self.task_cpus:
            self._may_be_followed.set()

    def wait_for_takers(self, queued: Callable[[], int]) -> None:
        """Set the state after its tasks ended, with this many bytes still to be read."""
        with self._lock:
            if not self._is_over:
                self._takes, self._queued = _NOTHING, queued

    def end(self) -> None:
        """Take nothing any more."""
        with self._lock:
            self._is_over = True
            self.before, self._takes, self._queued = None, _NOTHING, int
        self._may_be_followed.set()

    def left_of(self, limits: ExecutionResources) -> ExecutionResources:
        """Return what it may take while those before it go on.

        One task it may have whatever they do: who reads it alone must not wait for their end.
        """
        before = self.before
        if before is None:
            return limits
        taken = before.takes
        return limits.copy(
            cpu=max(self.task_cpus, limits.cpu - taken.cpu),
            object_store_memory=max(0, limits.object_store_memory - taken.object_store_memory),
        )


_NOTHING = ExecutionResources.zero()
_COURSES: WeakValueDictionary[str, ExecutionBudget] = WeakValueDictionary()


def on_course(dataset: Dataset, course: ExecutionBudget) -> Dataset:
    """Have a dataset of prepared tasks take its course when it is executed.

    course: is kept by who waits for it.
    """
    key = uuid.uuid4().hex
    _COURSES[key] = course
    dataset.context.set_config(_KEY, key)
    watched_by(dataset, _Taking)
    return dataset


class _Taking(ExecutionCallback):
    """Limits an execution to its remaining budget, and reports its use; one per execution."""

    def before_execution_starts(self, executor: StreamingExecutor) -> None:
        self._course = course = _COURSES[executor._data_context.get_config(_KEY)]
        manager = executor._resource_manager
        ask = manager.get_global_limits
        vars(manager)["get_global_limits"] = lambda: course.left_of(ask())

    def on_execution_step(self, executor: StreamingExecutor) -> None:
        states = tuple((executor._topology or {}).values())
        has_begun_all = not any(state.total_enqueued_input_blocks() for state in states)
        self._course.take(
            executor._resource_manager.get_global_usage(), has_begun_all=has_begun_all
        )
        if all(state.op.has_completed() for state in states):
            # The loop ends here, and nothing reports the remaining budget later.
            self._course.wait_for_takers(output_of(executor).output_queue_bytes)
