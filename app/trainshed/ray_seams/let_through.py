"""Which blocks Ray Data lets through though there is no room for them.

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
    from ray.data._internal.execution.interfaces import PhysicalOperator
    from ray.data._internal.execution.streaming_executor import StreamingExecutor
    from ray.data._internal.execution.streaming_executor_state import OpState

# Before a block of a task that is not the first in their order is let through without room, since
# the last one of any was: they would all come at once, and nobody can take them.
LET_THROUGH_SECONDS = 0.1
# Who has waited so long for a block may wait for the CPUs of tasks that stand.
IN_VAIN_SECONDS = 1.0

_WAITS: WeakSet[Waits] = WeakSet()
_LOCK = threading.Lock()


class Waits(ExecutionCallback):
    """Knows since when somebody waits for a block of an execution; made for each anew."""

    def before_execution_starts(self, executor: StreamingExecutor) -> None:
        """Begin."""
        self.output = output_of(executor)
        self._came, self._since = 0, time.monotonic()
        with _LOCK:
            _WAITS.add(self)

    def on_execution_step(self, executor: StreamingExecutor) -> None:  # noqa: ARG002
        """Take in whether a block came."""
        came = self.output.num_completed_tasks
        if came != self._came or not self.output.num_waiting_consumers:
            self._came, self._since = came, time.monotonic()

    @property
    def are_in_vain(self) -> bool:
        """Say whether somebody has waited long."""
        is_waited_for = self.output.num_waiting_consumers > 0
        return is_waited_for and time.monotonic() - self._since >= IN_VAIN_SECONDS


class LetsThrough(ExecutionCallback):
    """Lets blocks through for who waits for them, or for the CPUs of tasks that stand.

    Ray 2.60 let one through at each turn of its loop, whatever was ready, as it did not know that
    somebody else takes them (streaming_executor_state.py:204).
    """

    def before_execution_starts(self, executor: StreamingExecutor) -> None:
        """Have Ray Data let blocks through where somebody waits for one of this execution."""
        executor.set_external_consumer_bytes(0)
        assert executor._topology is not None
        manager = executor._resource_manager
        executor._output_backpressure_guard = _FirstAtOnce(executor._topology, manager)

    def on_execution_step(self, executor: StreamingExecutor) -> None:
        """Let blocks through where somebody else waits in vain."""
        # Ranks that evaluate in mid-epoch did not come back to take what stood.
        is_waited_for = not _others_wait(output_of(executor))
        executor._resource_manager._has_external_consumer = is_waited_for


class _FirstAtOnce(OutputBackpressureGuard):
    """Lets each block of the first task in their order through, and of the others few."""

    _last_seconds = -math.inf

    def should_unblock(self, op: PhysicalOperator) -> bool:
        """Say whether a block of the first task that has one may be read without room."""
        if not self._evaluate_unblock_raw(op):
            return False
        first = min(op.get_active_tasks(), key=OpTask.task_index, default=None)
        if first and ray.wait([first.get_waitable()], timeout=0, fetch_local=False)[0]:
            return True
        return time.monotonic() - self._last_seconds >= LET_THROUGH_SECONDS

    def notify_release_emitted(self, op: PhysicalOperator) -> None:  # noqa: ARG002
        """Take in that one was read."""
        self._last_seconds = time.monotonic()


def output_of(executor: StreamingExecutor) -> OpState:
    """Return where an execution that has begun hands out its blocks."""
    assert executor._output_node is not None
    _, output = executor._output_node
    return output


def _others_wait(output: OpState) -> bool:
    with _LOCK:
        others = [each for each in _WAITS if each.output is not output]
    return any(each.are_in_vain for each in others)
