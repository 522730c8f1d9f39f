"""How Ray Data runs here: prepared tasks in, blocks in their order out, in bounded memory."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ray
import ray.data
from ray import cloudpickle
from ray.data import DataContext, Dataset, ExecutionResources
from ray.data._internal.execution import metadata_fetcher, streaming_executor_state
from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data._internal.execution.operators.map_operator import MapOperator
from ray.data._internal.logical.operators import Sort
from ray.data._internal.output_buffer import OutputBlockSizeOption
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from trainshed.ray_compat.output_backpressure import OutputBackpressureCallback, StarvationMonitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from ray.data._internal.execution.streaming_executor import StreamingExecutor
    from ray.data.block import Block

# Blocks that Ray Data may have ready for each of its CPUs before somebody takes them.
READY_BYTES_A_CPU = 64 * 2**20
# Where tasks have nothing new Ray Data's loop looks again so soon: somebody may have taken a block,
# and those that had to wait for that may be read.
LOOK_AGAIN_SECONDS = 0.02
# An answer of Ray Data's own actor takes milliseconds; where no node is there yet, none will tell.
LIMITS_SECONDS, ASK_AGAIN_SECONDS = 1.0, 0.002
# Ray 2.60 ends what hands out nothing for half an hour, as by an evaluation that takes longer.
NEVER = -1


@dataclass(frozen=True)
class Task:
    """What one Ray Data task makes.

    Args:
        make: yields the blocks.
        rows: how many they have, as far as is known.
    """

    make: Callable[[], Iterable[Block]]
    rows: int


def configure(cpus: int, node_labels: Mapping[str, str]) -> None:
    """Set what holds for all of Ray Data in this process."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = None  # one block a task, so that cached blocks are fragments
    context.execution_options.preserve_order = True
    context.execution_no_progress_timeout_s = NEVER
    context.execution_options.resource_limits = ExecutionResources(cpu=cpus)
    # Otherwise the exception of a dataset's function is lost: Ray 2.60 raises another one instead.
    context.raise_original_map_exception = True
    context.custom_execution_callback_classes = [_KnowingLimits, _Resting, StarvationMonitor]
    # All that its loop asks of Ray by that name is to wait.
    vars(streaming_executor_state)["ray"] = _WAITS
    # What a task tells of a block is small and comes with it; to have it fetched costs a turn.
    metadata_fetcher._PREFETCH_ON_THREAD = False
    if node_labels:
        context.execution_options.label_selector = dict(node_labels)
    with contextlib.suppress(AttributeError):
        context.enable_operator_progress_bars = False


def this_actor() -> bytes | None:
    """Return the actor that this process is, to be sent to tasks; None where it is none.

    It is made into bytes once: Ray takes a third of a millisecond for that, in each task that is
    given a handle. It does not keep the actor alive.
    """
    if ray.get_runtime_context().get_actor_id() is None:
        return None
    actor = ray.get_runtime_context().current_actor
    sent: bytes = cloudpickle.dumps(actor)  # type: ignore[no-untyped-call]
    return sent


@functools.cache
def actor_of(sent: bytes) -> object:
    """Return the actor that another process sent."""
    made: object = cloudpickle.loads(sent)
    return made


@dataclass(frozen=True)
class Needs:
    """What Ray is asked for one task.

    Args:
        cpus: of it.
        memory: bytes that nothing else is given meanwhile; None for none.
    """

    cpus: int = 1
    memory: int | None = None


def dataset_of(
    name: str, tasks: Sequence[Task], row_bytes: float, needs: Needs = Needs()
) -> Dataset:
    """Return the Ray dataset that tasks make, in their order.

    Args:
        name: what Ray's dashboard shows.
        tasks: each runs once.
        row_bytes: mean size of a row, by which Ray Data plans its memory.
        needs: of each task.
    """
    prepared = [
        ReadTask(
            _Named(name, task.make),
            BlockMetadata(
                num_rows=task.rows,
                size_bytes=max(1, int(task.rows * row_bytes)),
                input_files=None,
                exec_stats=None,
            ),
        )
        for task in tasks
    ]
    made: Dataset = ray.data.read_datasource(
        _Prepared(name, prepared),
        override_num_blocks=max(1, len(prepared)),
        num_cpus=needs.cpus,
        memory=needs.memory,
    )
    return made


def map_blocks(
    dataset: Dataset, make: Callable[[pa.Table], Block], needs: Needs = Needs()
) -> Dataset:
    """Return a dataset of what a function makes of each block that has rows, in their order."""
    made: Dataset = dataset.map_batches(
        make,
        batch_size=None,
        batch_format="pyarrow",
        num_cpus=needs.cpus,
        memory=needs.memory,
    )
    return made


def sorted_by(dataset: Dataset, column: str, boundaries: Sequence[int]) -> Dataset:
    """Return a dataset sorted by a column, a block from each boundary on.

    Ray 2.60 makes its blocks on all nodes, whatever labels the data's must have: they took CPUs of
    training's nodes, and a block went there first, then to the node that reads it.
    """
    made = dataset.sort(column, boundaries=list(boundaries))
    operator = made._logical_plan.dag
    assert isinstance(operator, Sort)
    if labels := made.context.execution_options.label_selector:
        # By "SPREAD", what Ray gives them itself, labels are passed over.
        placed = {"label_selector": dict(labels), "scheduling_strategy": "DEFAULT"}
        operator.ray_remote_args.update(placed)
    return made


def block_by_block(dataset: Dataset, cpus: int) -> Dataset:
    """Let the tasks of a dataset return block by block, not far ahead of the reader.

    Args:
        dataset: of tasks.
        cpus: that its tasks take.
    """
    watched_by(dataset, _AsMade)
    watched_by(dataset, OutputBackpressureCallback)
    options = dataset.context.execution_options
    options.resource_limits = options.resource_limits.copy(
        object_store_memory=READY_BYTES_A_CPU * (cpus + 1)
    )
    return dataset


def watched_by(dataset: Dataset, callback: type[ExecutionCallback]) -> None:
    """Have a callback, after those that it has, watch each execution of a dataset."""
    callbacks = dataset.context.custom_execution_callback_classes
    dataset.context.custom_execution_callback_classes = [*callbacks, callback]


class _Named:
    """What a task calls. Ray 2.60 asks one of more than 1 MB for its name (plan_read_op.py)."""

    def __init__(self, name: str, make: Callable[[], Iterable[Block]]) -> None:
        self.__name__ = name
        self._make = make

    def __call__(self) -> Iterable[Block]:
        return self._make()


class WaitAny(threading.local):
    """Wakes Ray Data's loop as soon as one of its tasks has output; one instance for each loop.

    Ray 2.60 waits a tenth of a second for all of them to have something at once
    (streaming_executor_state.py:751): so late it handed out a block, and began another task where
    one was over. And where all have something, but may not be read yet, it turns without a rest.
    """

    # Whether the loop's last turn read something, or began or ended a task.
    has_moved = True

    def wait(
        self, tasks: list[object], *, num_returns: int, fetch_local: bool, timeout: float
    ) -> tuple[list[object], list[object]]:
        """Return the tasks that have something, and the others; what ray.wait is called for."""
        look = functools.partial(ray.wait, tasks, fetch_local=fetch_local)
        ready, others = look(num_returns=num_returns, timeout=0)
        if ready and self.has_moved:
            return ready, others
        seconds = LOOK_AGAIN_SECONDS if ready else timeout
        if others:
            look(num_returns=len(ready) + 1, timeout=seconds)
        else:
            time.sleep(seconds)
        return look(num_returns=num_returns, timeout=0)


_WAITS = WaitAny()


class _Resting(ExecutionCallback):
    """Says whether an iteration of Ray Data's loop moved anything; one instance per execution.

    Where no task goes on Ray 2.60 waits for none: with its queue full, and no resources for
    another task, it polled without a pause.
    """

    _moved = 0

    def on_execution_step(self, executor: StreamingExecutor) -> None:
        operators = tuple(executor._topology or ())
        moved = sum(
            each.num_tasks_submitted + each.num_tasks_finished + each.num_task_outputs_generated
            for each in (operator.metrics for operator in operators)
        )
        _WAITS.has_moved, self._moved = moved != self._moved, moved
        is_over = all(operator.has_completed() for operator in operators)
        is_waited = any(operator.num_active_tasks() for operator in operators)
        if not (_WAITS.has_moved or is_over or is_waited):
            time.sleep(LOOK_AGAIN_SECONDS)


class _KnowingLimits(ExecutionCallback):
    """Has Ray Data know its CPUs before the first task, and have all that the plan gives it.

    Ray 2.60 asks an actor for them once a second and waits for no answer (resource_manager.py:287):
    for the first second of each pass it took none to be there, and had one task at a time. And the
    actor deals a node's CPUs out in whole ones among passes, also those whose process is gone since
    less than three minutes (default_autoscaling_coordinator.py:693): with more passes than CPUs
    each had one task at a time to its end. Ray itself deals CPUs out to the tasks of them all.
    """

    def before_execution_starts(self, executor: StreamingExecutor) -> None:
        manager, deadline = executor._resource_manager, time.monotonic() + LIMITS_SECONDS
        ask = manager._get_total_resources
        manager._get_total_resources = lambda: ask().copy(cpu=manager._options.resource_limits.cpu)
        while not manager.get_global_limits().object_store_memory and time.monotonic() < deadline:
            time.sleep(ASK_AGAIN_SECONDS)
            manager._global_limits_last_update_time = 0


class _AsMade(ExecutionCallback):
    """Has Ray Data leave the blocks of tasks as they are, which Ray 2.60 offers writers alone."""

    def before_execution_starts(self, executor: StreamingExecutor) -> None:
        for operator in executor._topology or ():
            if isinstance(operator, MapOperator):
                for function in operator.get_map_transformer().get_transform_fns():
                    function._output_block_size_option = OutputBlockSizeOption.of(
                        disable_block_shaping=True
                    )


class _Prepared(Datasource):
    def __init__(self, name: str, tasks: Sequence[ReadTask]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._name = name
        self._tasks = list(tasks)

    def get_name(self) -> str:
        return self._name

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(task.metadata.size_bytes or 0 for task in self._tasks)

    def get_read_tasks(self, *_: object, **__: object) -> list[ReadTask]:
        return self._tasks
