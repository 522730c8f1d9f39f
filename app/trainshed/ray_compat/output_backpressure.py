"""Decides which blocks Ray Data outputs beyond its memory limit.

A task that may not hand out its next block stands where it is, and keeps its CPU.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING
from weakref import WeakSet

import ray
from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data._internal.execution.interfaces.physical_operator import OpTask
from ray.data._internal.execution.streaming_executor_state import OutputBackpressureGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ray.data._internal.execution.interfaces import PhysicalOperator
    from ray.data._internal.execution.streaming_executor import StreamingExecutor
    from ray.data._internal.execution.streaming_executor_state import OpState

# Who has waited so long for a block of an execution may wait for CPUs that tasks of another one
# stand with, and for so long after that may need more of them than have come.
IN_VAIN_SECONDS, IN_NEED_SECONDS = 1.0, 10.0
# If no block was taken for this long, those CPUs may be needed by a process that waits for no
# execution: workers that start again, or the task of a lost block.
NOBODY_SECONDS = 10.0

_ALL_WAITS: WeakSet[StarvationMonitor] = WeakSet()
_LOCK = threading.Lock()


class StarvationMonitor(ExecutionCallback):
    """Knows whether a reader waits in vain for an execution; one per execution."""

    def before_execution_starts(self, executor: StreamingExecutor) -> None:
        """Begin."""
        self.output = output_of(executor)
        self._goes_on = executor.is_alive
        self._came, self._since, self._until = 0, time.monotonic(), -math.inf
        with _LOCK:
            _ALL_WAITS.add(self)

    def on_execution_step(self, executor: StreamingExecutor) -> None:  # noqa: ARG002
        """Take in whether a block came."""
        now, came = time.monotonic(), self.output.num_completed_tasks
        if came != self._came or not self.output.num_waiting_consumers:
            self._came, self._since = came, now
        elif now - self._since >= IN_VAIN_SECONDS:
            self._until = now + IN_NEED_SECONDS

    @property
    def are_in_vain(self) -> bool:
        """Say whether somebody waits long, or did a short while ago, and tasks are still to run."""
        return time.monotonic() < self._until and self._goes_on()


class OutputBackpressureCallback(ExecutionCallback):
    """Outputs blocks for a waiting reader, or to free the CPUs of blocked tasks.

    Ray 2.60 let one through at each turn of its loop, whatever was ready, as it did not know that
    somebody else takes them (streaming_executor_state.py:204).
    """

    def before_execution_starts(self, executor: StreamingExecutor) -> None:
        """Make Ray Data check for waiting readers and blocked tasks."""
        executor.set_external_consumer_bytes(0)
        executor._output_backpressure_guard = _Guard(executor)


class _Guard(OutputBackpressureGuard):
    """Lets the first task in their order go on, or one after another go on to its end.

    Of the first one somebody can take what comes. To their end go tasks that nobody reads: ranks
    that evaluated in mid-epoch waited for their CPUs, and never came back to take what stood.
    """

    def __init__(self, executor: StreamingExecutor) -> None:
        assert executor._topology is not None
        super().__init__(executor._topology, executor._resource_manager)
        self._output = output_of(executor)
        self._taken, self._taken_seconds = 0, time.monotonic()
        # The task that goes on to its end.
        self._ending = -1

    def should_unblock(self, op: PhysicalOperator) -> bool:
        """Say whether a block of the first task that has one may exceed the limit."""
        is_waited_for, is_left = self._evaluate_unblock_raw(op), self._is_left()
        if not (is_waited_for or is_left):
            return False
        tasks = sorted(op.get_active_tasks(), key=OpTask.task_index)
        numbers = [task.task_index() for task in tasks]
        has_something = next((task.task_index() for task in tasks if _is_ready(task)), None)
        if has_something is None:
            return False
        if is_waited_for and has_something == numbers[0]:
            return True
        return is_left and self._may_end(has_something, numbers)

    def _is_left(self) -> bool:
        """Say whether nobody takes blocks, and somebody may need the CPUs of tasks that stand."""
        now = time.monotonic()
        taken = self._output.num_completed_tasks - len(self._output.output_queue)
        if taken != self._taken:
            self._taken, self._taken_seconds = taken, now
        seconds = now - self._taken_seconds
        return seconds >= NOBODY_SECONDS or (seconds >= IN_VAIN_SECONDS and self._others_wait())

    def _others_wait(self) -> bool:
        with _LOCK:
            others = [each for each in _ALL_WAITS if each.output is not self._output]
        return any(each.are_in_vain for each in others)

    def _may_end(self, task: int, active: Sequence[int]) -> bool:
        """Say whether a task may go on to its end: one at a time, as all may have much to make."""
        if self._ending in active and task > self._ending:
            return False
        self._ending = task
        return True


def output_of(executor: StreamingExecutor) -> OpState:
    """Return where an execution that has begun hands out its blocks."""
    assert executor._output_node is not None
    _, output = executor._output_node
    return output


def _is_ready(task: OpTask) -> bool:
    ready, _ = ray.wait([task.get_waitable()], timeout=0, fetch_local=False)
    return bool(ready)
