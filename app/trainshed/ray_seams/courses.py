"""Executions of Ray Data that follow each other: the next one takes what the one before leaves.

The last tasks of a pass leave CPUs idle, and Ray Data needs a tenth of a second to begin another.
"""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ray.data import ExecutionResources
from ray.data._internal.execution.execution_callback import ExecutionCallback

if TYPE_CHECKING:
    from ray.data import Dataset
    from ray.data._internal.execution.streaming_executor import StreamingExecutor

# Of a dataset's context, which tasks are given a copy of: where its course is found.
_KEY = "trainshed-course"
# Who reads the later one alone must not wait for the end of the other.
LEAST_CPUS = 1


class Course:
    """What an execution takes of CPUs and memory, for the one that follows it.

    Args:
        cpus: that it may take.
        before: the one that it follows, which may still go on.
    """

    def __init__(self, cpus: int, before: Course | None = None) -> None:
        self._cpus = cpus
        self._before = before
        self._taken = ExecutionResources.zero()
        self._may_be_followed = threading.Event()

    def wait(self) -> None:
        """Return once its last task has begun and CPUs are idle, or it has ended."""
        self._may_be_followed.wait()

    def take(self, taken: ExecutionResources, *, has_begun_all: bool) -> None:
        """Take in what it takes now, and whether its last task has begun."""
        self._taken = taken
        if has_begun_all and taken.cpu < self._cpus:
            self._may_be_followed.set()

    def end(self) -> None:
        """Take nothing any more."""
        self._before = None
        self._taken = ExecutionResources.zero()
        self._may_be_followed.set()

    def left_of(self, limits: ExecutionResources) -> ExecutionResources:
        """Return what it may take while the one before goes on."""
        if self._before is None:
            return limits
        taken = self._before._taken
        return limits.copy(
            cpu=max(LEAST_CPUS, limits.cpu - taken.cpu),
            object_store_memory=max(0, limits.object_store_memory - taken.object_store_memory),
        )


_COURSES: WeakValueDictionary[str, Course] = WeakValueDictionary()


def on_course(dataset: Dataset, course: Course) -> Dataset:
    """Have a dataset of prepared tasks take its course when it is executed.

    course: is kept by who waits for it.
    """
    key = uuid.uuid4().hex
    _COURSES[key] = course
    dataset.context.set_config(_KEY, key)
    callbacks = dataset.context.custom_execution_callback_classes
    dataset.context.custom_execution_callback_classes = [*callbacks, _Taking]
    return dataset


class _Taking(ExecutionCallback):
    """Limits an execution to what is left to it, and tells what it takes; made for each anew."""

    _course: Course | None = None

    def before_execution_starts(self, executor: StreamingExecutor) -> None:
        course = _COURSES.get(executor._data_context.get_config(_KEY))
        if course is None:
            return
        self._course = course
        manager = executor._resource_manager
        ask = manager.get_global_limits
        vars(manager)["get_global_limits"] = lambda: course.left_of(ask())

    def on_execution_step(self, executor: StreamingExecutor) -> None:
        if self._course is not None:
            states = (executor._topology or {}).values()
            has_begun_all = not any(state.total_enqueued_input_blocks() for state in states)
            taken = executor._resource_manager.get_global_usage()
            self._course.take(taken, has_begun_all=has_begun_all)
