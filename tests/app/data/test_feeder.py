import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pyarrow as pa
import pytest
import ray
from pydantic import JsonValue
from ray.actor import ActorHandle
from ray.cloudpickle import register_pickle_by_value
from ray.data import DataContext, ExecutionResources
from ray.data._internal.cluster_autoscaler.base_autoscaling_coordinator import (
    STANDARD_RESOURCE_TYPES,
)
from ray.data._internal.cluster_autoscaler.default_autoscaling_coordinator import (
    DefaultAutoscalingCoordinator,
)
from ray.data._internal.execution import streaming_executor_state
from ray.data._internal.execution.execution_callback import ExecutionCallback
from ray.data._internal.logical.operators import Sort
from ray.exceptions import TaskCancelledError

from tests.app.data.builders_plan import (
    FUNCTIONS,
    MemoryBlocks,
    grouped_rows,
    make_mix,
    make_pass,
    make_plan,
    write_rows,
)
from tests.app.failing_runs import FRAME, write_corrupt_numbers, write_numbers
from tests.app.ray_head import start_here
from trainshed.coordinator.bad_record_limits import BadRecordLimits
from trainshed.coordinator.bottleneck import say_limit
from trainshed.coordinator.stage_rates import Means
from trainshed.data.loader import row_sources
from trainshed.data.loader.arrow_blocks import joined, to_block
from trainshed.data.loader.bad_record_reporter import BadRecordReporter
from trainshed.data.loader.batches import Feed, RowSource
from trainshed.data.loader.data_server import DataServer, ExecutionLimits, Slice
from trainshed.data.loader.disk_cache import DiskCache
from trainshed.data.loader.ray_datasets import tasks_dataset
from trainshed.data.loader.row_sources import RemoteSource
from trainshed.data.loader.streams import StreamClosedError
from trainshed.data.sampler.bad_records import BadRecordList
from trainshed.data.sampler.dataset_plan import DatasetPlan, with_reporter
from trainshed.data.sampler.description import describe, keep_order
from trainshed.data.sampler.epoch_pass import EpochPass
from trainshed.data.sampler.function import Function
from trainshed.data.sampler.stage_time import (
    BATCH,
    COUNT,
    DEAL,
    FILL,
    READ,
    Spending,
    Spent,
    StageKey,
)
from trainshed.data.sources.apply_functions import transform
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.fragment_reader import everything
from trainshed.data.sources.stage_timer import STAGE_TIMER
from trainshed.failures import InfrastructureError
from trainshed.ray_compat import execution, output_backpressure, spilling
from trainshed.ray_compat.execution import (
    LOOK_AGAIN_SECONDS,
    Task,
    WaitAny,
    block_by_block,
    configure,
    dataset_of,
    sorted_by,
    watched_by,
)
from trainshed.ray_compat.execution_budget import ExecutionBudget, on_course
from trainshed.storage.disk import Disk
from trainshed.worker.process import summary, users_traceback
from trainshed_api.progress import BadRecords

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch
    from ray.data._internal.execution.interfaces import RefBundle
    from ray.data._internal.execution.streaming_executor import StreamingExecutor
    from ray.data.block import Block

    from tests.app.data.collate_functions import Boxes
    from trainshed.data.sources.column_arrays import Columns

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("empty_ledger"),
]

GROUPS = ([5, 11], [1, 30, 8], [26])
Row = tuple[object, ...]
AUGMENTS: JsonValue = [{"use": f"{FUNCTIONS}:noise"}]
STORE_BYTES = 90 * 2**20
WIDE = 2048
SECONDS = 600.0

# A process of Ray imports what a class of this module needs, instead of the module: 4 s less each.
register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    with start_here(cpus=2, store_bytes=STORE_BYTES):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), GROUPS)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three times what the object store holds, in row groups of 64 MB and of 8 MB."""
    return write_rows(tmp_path_factory.mktemp("large"), [[8192] * 2, [1024] * 16], width=WIDE)


def start(*plans: DatasetPlan, disk_cache: DiskCache | None = None) -> ActorHandle[DataServer]:
    actor = ray.remote(DataServer).options(num_cpus=0, max_concurrency=16)
    named = {plan.name: plan for plan in plans}
    handle = cast(
        "ActorHandle[DataServer]", actor.remote(named, ExecutionLimits(2), print, disk_cache)
    )
    cast("Any", handle).start.remote()  # Ray's types say that this never returns
    return handle


class Reader:
    """A rank in a process of its own, as in a run.

    With two in one process a test hangs once in some hundred passes: while one of its threads lets
    go of a block and the other is handed it, Ray 2.60 may lose the block's value.
    """

    def read(
        self, plan: DatasetPlan, at: EpochPass, data_server: ActorHandle[DataServer], rank: int
    ) -> list[Row]:
        """Return what is in the batches of a rank."""
        return list(_rows(plan, at, RemoteSource(plan, data_server, rank), rank))

    def read_dealt(
        self, plan: DatasetPlan, at: EpochPass, data_server: ActorHandle[DataServer], rank: int
    ) -> list[Row]:
        """Return the same where tasks beside the cached blocks deal them out."""
        blocks = RemoteSource(plan, data_server, rank, cuts_blocks=False)
        return list(_rows(plan, at, blocks, rank))

    def begin(
        self,
        plan: DatasetPlan,
        at: EpochPass,
        data_server: ActorHandle[DataServer],
        rank: int,
        steps: int,
    ) -> list[Row]:
        """Return what is in a rank's first batches; it is in the middle of its pass then."""
        self._open = _rows(plan, at, RemoteSource(plan, data_server, rank), rank)
        return list(islice(self._open, steps))

    def leave(self) -> None:
        """Leave the pass that was begun."""
        self._open.close()

    def processes(
        self, plan: DatasetPlan, at: EpochPass, data_server: ActorHandle[DataServer]
    ) -> list[tuple[float, float]]:
        """Return the process of each row, and how often a class was made there."""
        found: list[tuple[float, float]] = []
        for batch in Feed(plan, RemoteSource(plan, data_server, 0), 0).batches(at):
            found += zip(
                batch.tensors["process"].tolist(), batch.tensors["built"].tolist(), strict=True
            )
        return found

    def collated(
        self, plan: DatasetPlan, at: EpochPass, data_server: ActorHandle[DataServer], rank: int
    ) -> list[Row]:
        """Return what a function made of a rank's ragged rows."""
        return list(_collated(plan, at, RemoteSource(plan, data_server, rank), rank))

    def count(
        self, plan: DatasetPlan, at: EpochPass, data_server: ActorHandle[DataServer], rank: int
    ) -> int:
        """Return how many rows a rank gets, each of them whole."""
        rows = 0
        for batch in Feed(plan, RemoteSource(plan, data_server, rank), rank).batches(at):
            ids = batch.tensors["id"].numpy()
            assert np.array_equal(batch.tensors["x"].numpy()[:, 0], ids.astype(np.float32))
            rows += batch.rows
        return rows


def start_reader() -> ActorHandle[Reader]:
    actor = ray.remote(Reader).options(num_cpus=0)
    return cast("ActorHandle[Reader]", actor.remote())


@pytest.fixture(scope="module")
def readers() -> list[ActorHandle[Reader]]:
    """The ranks."""
    return [start_reader(), start_reader()]


MODES = ("none", "files", "blocks", "local", "global")


@dataclass
class Fed:
    """A dataset for each way of mixing and keeping, and the feeder of them all, as in a run."""

    plans: dict[tuple[str, str], DatasetPlan]
    data_server: ActorHandle[DataServer]


@pytest.fixture(scope="module")
def fed(folder: Path) -> Fed:
    plans = {
        (mode, cache): make_mixed(folder, mode, cache)
        for mode in MODES
        for cache in ("none", "objects")
    }
    return Fed(plans, start(*plans.values()))


def make_mixed(folder: Path, mode: str, cache: str) -> DatasetPlan:
    shuffle: JsonValue = {"mode": mode} | ({"bufferSize": 13} if mode == "local" else {})
    plan = make_plan(folder, row_bytes=2**20, cache=cache, shuffle=shuffle, augment=AUGMENTS)
    return replace(plan, name=f"{mode}-{cache}")


def read(
    readers: Sequence[ActorHandle[Reader]],
    plan: DatasetPlan,
    at: EpochPass,
    data_server: ActorHandle[DataServer],
) -> list[list[Row]]:
    seen = [reader.read.remote(plan, at, data_server, rank) for rank, reader in enumerate(readers)]
    rows: list[list[Row]] = ray.get(seen, timeout=SECONDS)
    return rows


def _rows(
    plan: DatasetPlan, at: EpochPass, blocks: RowSource, rank: int
) -> Generator[Row, None, None]:
    uncounted = blocks if isinstance(blocks, RemoteSource) else None
    for batch in Feed(plan, blocks, rank, uncounted).batches(at):
        row = {name: tensor.tolist() for name, tensor in batch.tensors.items()}
        yield row["id"], row["x"], row.get("draw")


def _collated(plan: DatasetPlan, at: EpochPass, blocks: RowSource, rank: int) -> Iterator[Row]:
    for batch in Feed(plan, blocks, rank).batches(at):
        ids, boxes = cast("tuple[torch.Tensor, Boxes]", batch.given)
        yield ids.tolist(), [box.tolist() for box in boxes.by_row], boxes.about


def expected(plan: DatasetPlan, at: EpochPass) -> list[list[Row]]:
    ranks = range(at.world_size)
    return [list(_rows(plan, at, MemoryBlocks(plan, rank), rank)) for rank in ranks]


@pytest.mark.parametrize(
    ("mode", "cache"),
    [*zip(MODES, cycle(["none", "objects"]), strict=False), ("blocks", "objects")],
)
def test_ray_data_sends_what_the_plan_says(
    fed: Fed, readers: list[ActorHandle[Reader]], mode: str, cache: str
) -> None:
    plan = fed.plans[mode, cache]
    training = (make_pass(epoch=1, epochs=3), make_pass(epoch=2, first_step=3, epochs=3))
    for unnamed in (*training, make_pass("exact", epoch=2, batch_size=27)):
        at = replace(unnamed, dataset=plan.name)
        assert read(readers, plan, at, fed.data_server) == expected(plan, at)


@pytest.mark.parametrize(
    ("mode", "cache"), [("blocks", "none"), ("none", "objects"), ("global", "none")]
)
def test_ragged_rows_come_as_the_function_of_batches_is_to_have_them(
    folder: Path, readers: list[ActorHandle[Reader]], mode: str, cache: str
) -> None:
    made: JsonValue = [{"use": "tests.app.data.collate_functions:ragged"}]
    feed: JsonValue = {"collate": {"use": "tests.app.data.collate_functions:seen"}}
    plan = make_plan(
        folder, row_bytes=2**20, cache=cache, shuffle={"mode": mode}, transforms=made, feed=feed
    )
    data_server = start(plan)
    at = make_pass(epoch=1)

    seen = [reader.collated.remote(plan, at, data_server, n) for n, reader in enumerate(readers)]

    want = [list(_collated(plan, at, MemoryBlocks(plan, rank), rank)) for rank in (0, 1)]
    assert ray.get(seen, timeout=SECONDS) == want
    ray.kill(data_server)


def make_uncounted(folder: Path, name: str, *, may_learn: bool = True) -> DatasetPlan:
    """Return a plan whose transform leaves out every second row."""
    plan = make_plan(
        folder,
        row_bytes=2**18,
        keeps_rows=False,
        may_learn=may_learn,
        cache="none",
        shuffle={"mode": "blocks", "bufferSize": 13},
        transforms=[{"use": f"{FUNCTIONS}:odd_rows"}],
        augment=AUGMENTS,
        feed={"lastBatch": "keep"},
    )
    return replace(plan, name=name)


@pytest.mark.parametrize("may_learn", [True, False], ids=["learned", "counted before"])
def test_rows_that_no_file_tells_are_sent_in_every_pass(
    folder: Path, readers: list[ActorHandle[Reader]], may_learn: bool
) -> None:
    plan = make_uncounted(folder, f"uncounted-{may_learn}", may_learn=may_learn)
    data_server = start(plan)
    passes = (
        make_pass(first_step=2, epochs=3),
        make_pass("exact", batch_size=9),
        make_pass(epoch=1, epochs=3),
        make_pass(epoch=2, first_step=1, epochs=3),
    )
    for unnamed in passes:
        at = replace(unnamed, dataset=plan.name)
        assert read(readers, plan, at, data_server) == expected(plan, at)
    ray.kill(data_server)


def test_who_goes_on_in_the_first_pass_after_a_loss_gets_the_same_rows(
    folder: Path, readers: list[ActorHandle[Reader]]
) -> None:
    plan = make_uncounted(folder, "lost")
    data_server = start(plan)
    at = replace(make_pass(batch_size=8, epochs=2), dataset=plan.name)
    begun = [
        reader.begin.remote(plan, at, data_server, rank, 2) for rank, reader in enumerate(readers)
    ]
    before: list[list[Row]] = ray.get(begun, timeout=SECONDS)

    again = replace(at, group=1, first_step=1)
    after = read(readers, plan, again, data_server)

    whole = expected(plan, at)
    assert before == [steps[:2] for steps in whole]
    assert after == [steps[1:] for steps in whole]
    ray.get([reader.leave.remote() for reader in readers])
    ray.kill(data_server)


def test_passes_that_are_left_early_teach_nothing_false(folder: Path, tmp_path: Path) -> None:
    """Their threads took it for the end that the next pass was begun, and counted no more rows."""
    gate = tmp_path / "gate"
    last: JsonValue = {"use": f"{FUNCTIONS}:gated", "options": {"at": 55, "gate": str(gate)}}
    plan = make_plan(
        folder,
        row_bytes=2**18,
        keeps_rows=False,
        may_learn=True,
        cache="none",
        shuffle={"mode": "none"},
        transforms=[{"use": f"{FUNCTIONS}:odd_rows"}, last],
        feed={"lastBatch": "keep", "prefetchBatches": 50},
    )
    data_server = start(plan)
    blocks = RemoteSource(plan, data_server, 0)
    feed = Feed(plan, blocks, 0, blocks)
    first, second, third = (make_pass(epoch=epoch, world_size=1) for epoch in range(3))
    before = set(threading.enumerate())
    begun = feed.batches(first)
    assert len(list(islice(begun, 3))) == 3  # all that comes before the gate
    begun.close()
    left = [each for each in set(threading.enumerate()) - before if each.name == "prefetch"]

    again = feed.batches(second)
    next(again)
    for thread in left:
        thread.join(SECONDS)
    again.close()
    gate.touch()

    ids = [batch.tensors["id"].tolist() for batch in feed.batches(third)]
    assert ids == [row[0] for row in expected(plan, third)[0]]
    ray.kill(data_server)


def test_no_pass_is_begun_for_workers_that_are_gone(folder: Path) -> None:
    """A late word of theirs began one, which held the data's CPUs until somebody read another."""
    plan = make_uncounted(folder, "train")
    data_server = DataServer({plan.name: plan}, ExecutionLimits(2), print)
    data_server.leave_before(2)

    with pytest.raises(StreamClosedError):
        data_server.take(make_pass(group=1), 0)


class WatchedFeeder(DataServer):
    """A feeder that says what it holds."""

    def held(self) -> tuple[int, int]:
        """Return of how many passes it knows, and how many threads work for them."""
        names = ("stream-train", "next-train")
        threads = [each for each in threading.enumerate() if each.name in names]
        return len(self._streams), len(threads)


def take_all(data_server: ActorHandle[WatchedFeeder], at: EpochPass, rank: int) -> int:
    """Return how many rows a rank is sent in a pass."""
    rows = 0
    while taken := ray.get(cast("Any", data_server).take.remote(at, rank), timeout=SECONDS):
        rows += taken.stop - taken.start
    return rows


def watched(plan: DatasetPlan) -> ActorHandle[WatchedFeeder]:
    actor = ray.remote(WatchedFeeder).options(num_cpus=0, max_concurrency=8)
    return cast(
        "ActorHandle[WatchedFeeder]", actor.remote({plan.name: plan}, ExecutionLimits(2), print)
    )


def held(data_server: ActorHandle[WatchedFeeder]) -> tuple[int, int]:
    """Return of how many passes a feeder knows, and how many threads read for them."""
    known: tuple[int, int] = ray.get(cast("Any", data_server).held.remote(), timeout=SECONDS)
    return known


@pytest.mark.parametrize("is_left_early", [False, True])
def test_a_rank_that_reads_alone_leaves_nothing_behind(folder: Path, is_left_early: bool) -> None:
    data_server = watched(
        make_plan(folder, row_bytes=2**23, cache="none", shuffle={"mode": "none"})
    )
    for epoch in range(5):
        at = make_pass("even", epoch=epoch)
        assert ray.get(cast("Any", data_server).take.remote(at, 0), timeout=SECONDS)
        if not is_left_early:
            take_all(data_server, at, 0)

    num_passes, num_threads = held(data_server)
    assert num_passes <= 2
    deadline = time.monotonic() + SECONDS
    while num_threads > 2:  # who is let go of ends what it has begun
        assert time.monotonic() < deadline, num_threads
        time.sleep(0.1)
        _, num_threads = held(data_server)
    ray.kill(data_server)


def test_small_passes_are_begun_one_ahead_of_who_reads(folder: Path) -> None:
    """Each fitted into its queues, so all epochs of a run were in the object store at once."""
    data_server = watched(make_plan(folder, cache="none", shuffle={"mode": "none"}))
    at = make_pass(world_size=1, epochs=50)
    assert take_all(data_server, at, 0)
    second = replace(at, epoch=1)
    assert take_all(data_server, second, 0)

    deadline = time.monotonic() + SECONDS
    while held(data_server) != (3, 1):  # the third has been read, and waits for the rank
        assert time.monotonic() < deadline, held(data_server)
        time.sleep(0.1)
    time.sleep(2)
    assert held(data_server) == (3, 1)
    ray.kill(data_server)


def test_a_pass_begins_while_the_last_task_of_the_one_before_goes_on(
    folder: Path, tmp_path: Path
) -> None:
    transforms: JsonValue = [
        {"use": f"{FUNCTIONS}:announced", "options": {"row": 0, "folder": str(tmp_path)}},
        {"use": f"{FUNCTIONS}:gated", "options": {"at": 60, "gate": str(tmp_path / "2")}},
    ]
    plan = make_plan(folder, cache="none", shuffle={"mode": "none"}, transforms=transforms)
    data_server = watched(plan)

    # The last rows come once the first one is read again.
    assert take_all(data_server, make_pass(world_size=1, epochs=2), 0) > 60
    ray.kill(data_server)


def test_a_rank_that_comes_to_a_pass_long_after_another_one_gets_its_rows(folder: Path) -> None:
    plan = make_plan(folder, cache="none", shuffle={"mode": "none"})
    data_server = watched(plan)
    passes = [make_pass("even", epoch=epoch) for epoch in range(4)]
    want = [sum(len(ids_in(row)) for row in rows) for rows in expected(plan, passes[0])]

    first = [take_all(data_server, at, 0) for at in passes]
    second = [take_all(data_server, at, 1) for at in passes]

    assert (first, second) == ([want[0]] * 4, [want[1]] * 4)
    ray.kill(data_server)


@pytest.mark.parametrize(
    ("mode", "cache"), [("local", "objects"), ("blocks", "objects"), ("local", "workers")]
)
def test_cached_rows_are_dealt_out_to_workers_of_several_nodes(
    folder: Path, readers: list[ActorHandle[Reader]], mode: str, cache: str
) -> None:
    plan = replace(make_mixed(folder, mode, cache), name="train")
    if cache == "objects":
        plan = replace(plan, augments=())
    data_server = start(plan)
    for at in (make_pass(epoch=1), make_pass("exact", batch_size=27)):
        seen = [
            reader.read_dealt.remote(plan, at, data_server, n) for n, reader in enumerate(readers)
        ]
        assert ray.get(seen, timeout=SECONDS) == expected(plan, at)
    ray.kill(data_server)


def test_a_mix_of_kept_and_streamed_rows_is_what_the_plan_says(
    folder: Path, readers: list[ActorHandle[Reader]], tmp_path: Path
) -> None:
    other = write_rows(tmp_path / "other", ([9, 4], [12]), first=1000)
    third = write_rows(tmp_path / "third", ([7], [6]), first=2000)
    parts = {
        "streamed": (make_mixed(folder, "blocks", "none"), 0.6),
        "kept": (make_mixed(other, "files", "objects"), 0.2),
        "on disk": (make_mixed(third, "blocks", "disk"), 0.2),
    }
    plan = make_mix(parts, shuffle={"bufferSize": 20}, rowsPerEpoch=100)
    data_server = start(plan, *plan.parts, disk_cache=DiskCache(Disk(tmp_path / "rows")))
    for at in (make_pass(epoch=1), make_pass(epoch=2, first_step=5), make_pass("exact", epoch=2)):
        assert read(readers, plan, at, data_server) == expected(plan, at)
    ray.kill(data_server)


@pytest.mark.parametrize("labels", [None, {"side": "data"}], ids=["any node", "nodes of the data"])
def test_a_sort_makes_its_blocks_on_the_nodes_that_the_data_must_be_on(
    labels: dict[str, str] | None,
) -> None:
    # Ray spreads them over all nodes: CPUs of training's nodes, and rows that cross twice.
    dataset = ray.data.range(20)
    dataset.context.execution_options.label_selector = labels

    made = sorted_by(dataset, "id", [10])

    placed = {"label_selector": labels, "scheduling_strategy": "DEFAULT"} if labels else {}
    operator = made._logical_plan.dag
    assert isinstance(operator, Sort)
    assert operator.ray_remote_args == placed


def test_blocks_are_handed_out_as_a_task_makes_them() -> None:
    # Ray Data joins small ones: rows of several ranks, which would go to the node of each.
    sizes = [40, 1, 2, 40, 3]
    task = Task(lambda: (to_block({"id": np.arange(rows)}) for rows in sizes), sum(sizes))

    dataset = block_by_block(dataset_of("made", [task], 8), 1)
    bundles = list(dataset.iter_internal_ref_bundles())

    assert [entry.metadata.num_rows for bundle in bundles for entry in bundle.blocks] == sizes


def read_noted_by(callback: type[ExecutionCallback], course: ExecutionBudget | None = None) -> None:
    """Read a dataset of one block while something notes how Ray Data runs it."""
    task = Task(lambda: [to_block({"id": np.arange(3)})], 3)
    dataset = block_by_block(dataset_of("made", [task], 8), 2)
    if course is not None:
        dataset = on_course(dataset, course)
    watched_by(dataset, callback)

    (bundle,) = dataset.iter_internal_ref_bundles()

    assert bundle.num_rows() == 3


class NotesWaits(ExecutionCallback):
    """Notes what Ray Data's loop asks to wait for its tasks."""

    noted: ClassVar[list[object]] = []

    def on_execution_step(self, executor: "StreamingExecutor") -> None:  # noqa: ARG002
        self.noted.append(vars(streaming_executor_state)["ray"])


def test_ray_datas_loop_waits_for_the_first_of_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NotesWaits, "noted", [])
    configure(2, {})
    read_noted_by(NotesWaits)

    assert {type(each) for each in NotesWaits.noted} == {WaitAny}


class NotesWhatIsLeft(ExecutionCallback):
    """Notes the CPUs and the memory that Ray Data may take."""

    noted: ClassVar[list[tuple[float, float]]] = []

    def on_execution_step(self, executor: "StreamingExecutor") -> None:
        limits = executor._resource_manager.get_global_limits()
        self.noted.append((limits.cpu, limits.object_store_memory))


@pytest.mark.parametrize(
    ("taken", "left"), [((0, 0), (2, 1)), ((1, 0.25), (1, 0.75)), ((2, 2), (1, 0))]
)
def test_a_pass_takes_what_the_one_before_leaves(
    taken: tuple[float, float], left: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NotesWhatIsLeft, "noted", [])
    configure(2, {})
    read_noted_by(NotesWhatIsLeft)
    (cpus, store), *_ = NotesWhatIsLeft.noted
    NotesWhatIsLeft.noted.clear()
    before = ExecutionBudget(2)
    before.take(
        ExecutionResources(cpu=taken[0], object_store_memory=taken[1] * store), has_begun_all=False
    )
    read_noted_by(NotesWhatIsLeft, ExecutionBudget(2, before=before))

    assert cpus == 2
    assert NotesWhatIsLeft.noted[0] == pytest.approx((left[0], left[1] * store), abs=1)
    NotesWhatIsLeft.noted.clear()
    before.end()
    read_noted_by(NotesWhatIsLeft, ExecutionBudget(2, before=before))
    assert NotesWhatIsLeft.noted[0] == (2, store)


def test_a_pass_takes_what_all_before_it_leave_and_nothing_once_it_is_over() -> None:
    limits, one = ExecutionResources(cpu=4, object_store_memory=9), ExecutionResources(cpu=1)
    first = ExecutionBudget(4)
    second = ExecutionBudget(4, before=first)
    third = ExecutionBudget(4, before=second)
    first.take(ExecutionResources(cpu=1, object_store_memory=4), has_begun_all=True)
    second.take(one, has_begun_all=True)
    assert third.left_of(limits) == ExecutionResources(cpu=2, object_store_memory=5)
    first.wait_for_takers(lambda: 3)
    assert third.left_of(limits) == ExecutionResources(cpu=3, object_store_memory=6)
    for course in (first, second):
        course.end()
        course.take(one, has_begun_all=True)  # by a loop that ends late
    assert third.left_of(limits) == limits


class ScriptedFeeder(DataServer):
    """A feeder whose passes have what a test gives them, and no Ray Data.

    Args:
        plan: of its dataset.
        script: called with a pass and its course; yields as often as a slice comes.
    """

    def __init__(
        self, plan: DatasetPlan, script: Callable[[EpochPass, ExecutionBudget], Iterator[object]]
    ) -> None:
        super().__init__({plan.name: plan}, ExecutionLimits(2), print)
        self._script = script

    def _slices(
        self,
        at: EpochPass,
        plan: DatasetPlan,  # noqa: ARG002 - a Feeder's
        course: ExecutionBudget,
    ) -> Generator[tuple[Sequence[int], Slice], None, None]:
        for _ in self._script(at, course):
            yield range(at.world_size), Slice(ray.ObjectRef.nil(), 0, 1, 1)


def join_streams() -> None:
    """Wait for the threads of all passes; an error of one fails the test."""
    for thread in threading.enumerate():
        if thread.name == "stream-train":
            thread.join(SECONDS)


def test_a_pass_that_is_begun_anew_may_end_before_its_first_time(folder: Path) -> None:
    gate, begun = threading.Event(), Counter[int]()

    def script(at: EpochPass, _: ExecutionBudget) -> Iterator[object]:
        begun[at.epoch] += 1
        if at.epoch == 0 and begun[0] == 1:
            gate.wait(SECONDS)
        yield at

    plan = make_plan(folder, cache="none", shuffle={"mode": "none"})
    data_server = ScriptedFeeder(plan, script)
    first, second, third = (make_pass("even", epoch=epoch) for epoch in range(3))
    data_server.open(first)
    data_server.open(second)
    assert data_server.take(third, 0)  # nobody reads the first pass: it is given up
    assert data_server.take(first, 1)
    assert begun[0] == 2
    gate.set()
    join_streams()


def test_a_pass_that_fails_in_its_last_task_is_followed_by_none(folder: Path) -> None:
    next_has_begun = threading.Event()

    def script(at: EpochPass, course: ExecutionBudget) -> Iterator[object]:
        yield at
        if at.epoch:
            next_has_begun.set()
            return
        course.take(ExecutionResources(cpu=1), has_begun_all=True)
        assert next_has_begun.wait(SECONDS)
        raise DataError("the last row is bad")

    data_server = ScriptedFeeder(make_plan(folder, cache="none", shuffle={"mode": "none"}), script)
    first = make_pass(world_size=1, epochs=9)

    assert data_server.take(first, 0)
    with pytest.raises(DataError, match="the last row is bad"):
        data_server.take(first, 0)
    join_streams()
    assert list(data_server._streams) == [first]


def test_a_pass_may_be_followed_once_it_has_begun_all_and_leaves_cpus() -> None:
    course, is_over = ExecutionBudget(2), threading.Event()

    def wait() -> None:
        course.wait()
        is_over.set()

    threading.Thread(target=wait, daemon=True).start()
    one, both = (ExecutionResources(cpu=cpus) for cpus in (1, 2))
    course.take(one, has_begun_all=False)
    course.take(both, has_begun_all=True)
    assert not is_over.wait(0.2)
    course.take(one, has_begun_all=True)
    assert is_over.wait(SECONDS)


def wait_for_file(file: Path) -> None:
    """Be a task that ends when a file is there."""
    while not file.exists():
        time.sleep(0.01)


def test_the_first_task_that_has_something_ends_the_wait(tmp_path: Path) -> None:
    waits, has_something = WaitAny(), ray.put("a block")
    task = ray.remote(wait_for_file).options(num_cpus=0)
    second, third = (task.remote(tmp_path / name) for name in ("second", "third"))
    tasks: list[object] = [has_something, second, third]

    def wait() -> tuple[list[object], list[object]]:
        return waits.wait(tasks, num_returns=3, fetch_local=False, timeout=SECONDS)

    begun = time.monotonic()
    assert wait() == ([has_something], [second, third])
    (tmp_path / "second").touch()
    while (now := wait()) == ([has_something], [second, third]):
        pass
    assert now == ([has_something, second], [third])
    assert time.monotonic() < begun + SECONDS
    (tmp_path / "third").touch()


@pytest.mark.parametrize("others", [0, 1])
def test_tasks_that_may_not_be_read_do_not_keep_a_core_busy(others: int, tmp_path: Path) -> None:
    waits, turns = WaitAny(), 10
    waits.has_moved = False
    task = ray.remote(wait_for_file).options(num_cpus=0)
    unready = [task.remote(tmp_path / "end") for _ in range(others)]
    tasks: list[object] = [ray.put("a block"), *unready]

    begun = time.monotonic()
    for _ in range(turns):
        waits.wait(tasks, num_returns=len(tasks), fetch_local=False, timeout=SECONDS)
    assert time.monotonic() >= begun + turns * LOOK_AGAIN_SECONDS
    (tmp_path / "end").touch()


class NotesTurns(ExecutionCallback):
    """Notes at each turn of Ray Data's loop how many bytes are ready and under way."""

    noted: ClassVar[list[float]] = []

    def on_execution_step(self, executor: "StreamingExecutor") -> None:
        self.noted.append(executor._resource_manager.get_global_usage().object_store_memory)


def rows_of(bundles: "Iterable[RefBundle]") -> int:
    """Return how many rows come."""
    return sum(bundle.num_rows() or 0 for bundle in bundles)


@pytest.mark.parametrize("blocks_a_task", [1, 20])
def test_who_takes_nothing_costs_no_core_and_no_more_memory(
    blocks_a_task: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop turned a thousand times a second, or let one more block through at each turn."""
    limit, stalled_seconds = 3 * 4 * 2**20, 3.0
    monkeypatch.setattr(NotesTurns, "noted", [])
    monkeypatch.setattr(execution, "READY_BYTES_A_CPU", limit / 3)
    configure(2, {})
    rows = 2**17
    tasks = [
        Task(lambda: (to_block({"id": np.arange(rows)}) for _ in range(blocks_a_task)), rows)
        for _ in range(40 // blocks_a_task)
    ]
    dataset = block_by_block(dataset_of("made", tasks, 8), 2)
    watched_by(dataset, NotesTurns)
    bundles = iter(dataset.iter_internal_ref_bundles())
    first = next(bundles).num_rows() or 0
    time.sleep(1)
    turns = len(NotesTurns.noted)
    time.sleep(stalled_seconds)

    assert len(NotesTurns.noted) - turns < 2 * stalled_seconds / LOOK_AGAIN_SECONDS
    assert max(NotesTurns.noted) <= limit + 2 * 8 * rows
    assert first + rows_of(bundles) == 40 * rows


def test_a_task_that_is_not_the_first_does_not_fill_the_store_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody waited for a block of the first task: those of the others all came at once."""
    rows, few, many, limit = 2**10, 10, 500, 12 * 8 * 2**10
    monkeypatch.setattr(NotesTurns, "noted", [])
    monkeypatch.setattr(execution, "READY_BYTES_A_CPU", limit / 3)
    configure(2, {})

    def slow() -> "Iterator[Block]":
        for _ in range(few):
            time.sleep(0.3)
            yield to_block({"id": np.arange(rows)})

    fast = Task(lambda: (to_block({"id": np.arange(rows)}) for _ in range(many)), rows)
    dataset = block_by_block(dataset_of("made", [Task(slow, rows), fast], 8), 2)
    watched_by(dataset, NotesTurns)
    bundles = iter(dataset.iter_internal_ref_bundles())
    seen = [next(bundles).num_rows() for _ in range(few)]

    assert seen == [rows] * few
    assert max(NotesTurns.noted) < limit + 2 * few * 8 * rows
    assert rows_of(bundles) == many * rows


def test_the_first_task_hands_out_block_after_block_where_others_have_taken_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its blocks had to wait as one of a task that nobody can take yet."""
    rows, few, limit = 2**10, 10, 12 * 8 * 2**10
    monkeypatch.setattr(output_backpressure, "NOBODY_SECONDS", SECONDS)
    monkeypatch.setattr(execution, "READY_BYTES_A_CPU", limit / 3)
    configure(2, {})

    def slow() -> "Iterator[Block]":
        wait_for_file(tmp_path / "begun")
        time.sleep(1)  # in which the other one takes the room
        for _ in range(few):
            time.sleep(0.05)
            yield to_block({"id": np.arange(rows)})

    def fast() -> "Iterator[Block]":
        (tmp_path / "begun").touch()
        return (to_block({"id": np.arange(rows)}) for _ in range(50))

    tasks = [Task(slow, rows), Task(fast, rows)]
    bundles = iter(block_by_block(dataset_of("made", tasks, 8), 2).iter_internal_ref_bundles())

    assert rows_of(islice(bundles, few)) == few * rows
    assert rows_of(bundles) == 50 * rows


# RowSource of 1 MB: a task makes more of them than there is room for.
ROWS, BLOCKS = 2**17, 20


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have room for a few blocks of each task."""
    monkeypatch.setattr(execution, "READY_BYTES_A_CPU", 4 * 8 * ROWS)
    configure(2, {})


def bundles_of(tasks: int) -> "Iterator[RefBundle]":
    """Return what tasks make."""

    def made() -> "Iterator[Block]":
        return (to_block({"id": np.arange(ROWS)}) for _ in range(BLOCKS))

    dataset = dataset_of("made", [Task(made, BLOCKS * ROWS) for _ in range(tasks)], 8)
    return iter(block_by_block(dataset, 2).iter_internal_ref_bundles())


def idle_cpus() -> float:
    """Return the CPUs that no task has."""
    return float(ray.available_resources().get("CPU", 0))  # type: ignore[no-untyped-call]


def wait_until_no_cpu_is_left() -> None:
    """Return once tasks have all of them."""
    while idle_cpus():
        time.sleep(0.1)


@pytest.mark.usefixtures("limited")
def test_tasks_that_nobody_reads_give_their_cpus_to_those_that_somebody_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ranks that evaluate in mid-epoch waited for ever: all CPUs were those of tasks that stood."""
    monkeypatch.setattr(output_backpressure, "NOBODY_SECONDS", SECONDS)
    training = bundles_of(tasks=6)
    first = next(training)
    wait_until_no_cpu_is_left()

    assert rows_of(bundles_of(tasks=2)) == 2 * BLOCKS * ROWS
    assert rows_of([first, *training]) == 6 * BLOCKS * ROWS


@pytest.mark.usefixtures("limited")
def test_tasks_that_nobody_reads_for_long_give_their_cpus_to_anybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers that start again, or the task of a lost block, waited for them for ever."""
    monkeypatch.setattr(output_backpressure, "NOBODY_SECONDS", 1.0)
    training = bundles_of(tasks=6)
    first = next(training)
    wait_until_no_cpu_is_left()

    assert ray.get(ray.remote(lambda: "begun").remote(), timeout=SECONDS) == "begun"
    assert rows_of([first, *training]) == 6 * BLOCKS * ROWS


@pytest.mark.usefixtures("limited")
def test_tasks_that_nobody_reads_go_on_to_their_end_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them at once would hold all that they have still to make."""
    monkeypatch.setattr(output_backpressure, "NOBODY_SECONDS", 1.0)
    first, second = tmp_path / "first", tmp_path / "second"

    def task(end: Path, seconds: float) -> Task:
        def made() -> "Iterator[Block]":
            for _ in range(BLOCKS):
                time.sleep(seconds)
                yield to_block({"id": np.arange(ROWS)})
            end.touch()

        return Task(made, BLOCKS * ROWS)

    dataset = dataset_of("made", [task(first, 0.1), task(second, 0)], 8)
    bundles = iter(block_by_block(dataset, 2).iter_internal_ref_bundles())
    taken = next(bundles)
    wait_for_file(first)
    wait_for_file(second)

    assert first.stat().st_mtime < second.stat().st_mtime
    assert rows_of([taken, *bundles]) == 2 * BLOCKS * ROWS


@pytest.mark.usefixtures("limited")
def test_who_waited_for_an_execution_that_is_over_needs_no_cpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks that stood went on beyond their limit for as long as that was known."""
    monkeypatch.setattr(output_backpressure, "NOBODY_SECONDS", SECONDS)

    def slow() -> "list[Block]":
        time.sleep(2 * output_backpressure.IN_VAIN_SECONDS)
        return [to_block({"id": np.arange(3)})]

    over = block_by_block(dataset_of("made", [Task(slow, 3)], 8), 2).iter_internal_ref_bundles()
    assert rows_of(over) == 3
    training = bundles_of(tasks=2)
    first = next(training)
    wait_until_no_cpu_is_left()
    time.sleep(3 * output_backpressure.IN_VAIN_SECONDS)

    assert not idle_cpus()
    assert rows_of([first, *training]) == 2 * BLOCKS * ROWS


def test_a_task_that_is_interrupted_while_it_imports_leaves_a_process_that_can(
    folder: Path, tmp_path: Path
) -> None:
    """As torch, the transform's module can be imported once a process."""
    name, interrupted = f"{tmp_path.name}_module", tmp_path / "interrupted"
    lines = (
        "import _thread, os",
        f"os.mkdir(f'{tmp_path}/{{os.getpid()}}')",
        f"if not os.path.exists('{interrupted}'):",
        f"    os.mkdir('{interrupted}')",
        "    _thread.interrupt_main()",
        "def same(batch): return batch",
    )
    (tmp_path / f"{name}.py").write_text("\n".join(lines), encoding="utf-8")

    def made() -> "list[Block]":
        sys.path.insert(0, str(tmp_path))
        return [to_block(transform({"id": np.arange(3)}, [Function(f"{name}:same", "spec")]))]

    def read() -> int:
        configure(2, {})
        dataset = tasks_dataset(make_plan(folder), [Task(made, 3)])
        return rows_of(block_by_block(dataset, 2).iter_internal_ref_bundles())

    with pytest.raises(TaskCancelledError):
        read()
    assert read() == 3


def test_rows_of_a_task_that_died_come_once_however_fast_it_is_the_second_time(
    tmp_path: Path,
) -> None:
    # Ray goes on with the block of the next number: it must have the rows that are missing.
    begun, rows, tables = tmp_path / "begun", 1000, 12

    def slow_and_then_dead() -> "Iterator[Columns]":
        is_first = not begun.exists()
        begun.touch()
        for number in range(tables):
            if is_first and number == tables // 2:
                os._exit(1)
            time.sleep(0.3 * is_first)
            yield {"id": np.arange(number * rows, (number + 1) * rows)}

    def make() -> "Iterator[Block]":
        return joined(map(to_block, slow_and_then_dead()), 4 * 8 * rows)

    configure(2, {})
    dataset = block_by_block(dataset_of("made", [Task(make, rows * tables)], 8), 2)
    bundles = list(dataset.iter_internal_ref_bundles())
    made = [ray.get(entry.ref) for bundle in bundles for entry in bundle.blocks]

    assert pa.concat_tables(made)["id"].to_pylist() == list(range(rows * tables))


class Deals:
    """What a rank asks, which has one slice for it again and again."""

    def __init__(self, make: Callable[[], "ray.ObjectRef[Block]"], rows: int) -> None:
        self._make = make
        self._rows = rows

    def take(self, at: EpochPass, rank: int) -> Slice:  # noqa: ARG002 - a Feeder's
        return Slice(self._make(), 0, self._rows, self._rows)

    def nothing(self, *_: object) -> None:
        """Answer what these tests do not ask."""

    cached = counts = known = learn = nothing


def fed_by(make: Callable[[], "ray.ObjectRef[Block]"], rows: int, folder: Path) -> RemoteSource:
    """Return the blocks of a rank that is dealt a slice of so many rows."""
    deals = ray.remote(Deals).options(num_cpus=0).remote(make, rows)
    return RemoteSource(make_plan(folder, cache="none"), cast("ActorHandle[Deals]", deals), 0)


def test_a_block_that_comes_back_with_other_rows_is_refused(folder: Path) -> None:
    fed = fed_by(lambda: ray.put(to_block({"id": np.arange(3)})), 5, folder)

    with pytest.raises(DataError, match="a block had 5 rows, and 3 since it was lost"):
        next(fed.stream(make_pass(), [], 0, everything))


def test_a_block_that_never_comes_is_a_fault_of_a_node(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where Ray runs the task of a lost block again, and to no end.
    monkeypatch.setattr(row_sources, "LOST_SECONDS", 1.0)
    sleeps = ray.remote(lambda: time.sleep(SECONDS)).options(num_cpus=0)
    fed = fed_by(sleeps.remote, 1, folder)

    with pytest.raises(
        InfrastructureError, match="a block of rows did not come within 1 s"
    ) as raised:
        next(fed.stream(make_pass(), [], 0, everything))

    assert raised.value.kind == "node"


class NotesLimits(ExecutionCallback):
    """Notes what Ray Data knows that it may use before its first task."""

    noted: ClassVar[list[ExecutionResources]] = []

    def before_execution_starts(self, executor: "StreamingExecutor") -> None:
        self.noted.append(executor._resource_manager.get_global_limits())


@pytest.fixture
def other_passes() -> Iterator[None]:
    """Two, as those of a process that is gone, which Ray Data's own actor does not know yet."""
    others = [DefaultAutoscalingCoordinator(name) for name in ("first", "second")]
    for other in others:
        other.request_resources([], SECONDS, STANDARD_RESOURCE_TYPES)
    yield
    for other in others:
        other.cancel_request()


@pytest.mark.usefixtures("other_passes")
def test_a_pass_has_all_of_its_cpus_from_the_first_task_on_beside_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Ray Data hears of them a second later, and deals them out to passes in whole ones.
    monkeypatch.setattr(execution, "LIMITS_SECONDS", SECONDS)  # its first pass starts an actor
    configure(2, {})
    read_noted_by(NotesLimits)

    (limits,) = NotesLimits.noted
    assert limits.cpu == 2
    assert 0 < limits.object_store_memory < STORE_BYTES


def test_who_rests_between_blocks_finds_the_next_ones_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray Data ends what hands out nothing for half an hour; an evaluation may take longer."""
    monkeypatch.setattr(DataContext.get_current(), "execution_no_progress_timeout_s", 0.5)
    configure(2, {})
    tasks = [Task(lambda: [to_block({"id": np.arange(3)})], 3) for _ in range(4)]

    bundles = iter(block_by_block(dataset_of("made", tasks, 8), 2).iter_internal_ref_bundles())
    rows = next(bundles).num_rows() or 0
    time.sleep(3)
    rows += rows_of(bundles)

    assert rows == 12


def test_a_task_may_be_told_more_than_a_megabyte(
    folder: Path, readers: list[ActorHandle[Reader]]
) -> None:
    told: JsonValue = {
        "use": f"{FUNCTIONS}:doubled",
        "options": {"column": "x", "why": "x" * 2**20},
    }
    plan = make_plan(folder, cache="none", transforms=[told])
    data_server, at = start(plan), make_pass()
    assert read(readers, plan, at, data_server) == expected(plan, at)
    ray.kill(data_server)


@pytest.mark.parametrize("cache", ["none", "objects"])
def test_an_epoch_of_some_rows_is_fed_as_the_plan_says(
    folder: Path, readers: list[ActorHandle[Reader]], cache: str
) -> None:
    plan = make_plan(folder, cache=cache, shuffle={"mode": "blocks"}, rowsPerEpoch=50)
    data_server = start(plan)
    for at in (make_pass(epoch=1), make_pass(epoch=2, first_step=2)):
        assert read(readers, plan, at, data_server) == expected(plan, at)
    ray.kill(data_server)


USERS: list[JsonValue] = [
    {"use": f"{FUNCTIONS}:with_users", "options": {"as_text": False}},
    {"use": f"{FUNCTIONS}:crumbled", "kind": "groups", "by": ["user"], "orderBy": ["when"]},
]


@pytest.mark.parametrize("cache", ["objects", "disk"])
def test_groups_are_made_once_and_gone_on_with(
    folder: Path, tmp_path: Path, readers: list[ActorHandle[Reader]], cache: str
) -> None:
    shuffle: JsonValue = {"mode": "blocks", "bufferSize": 11}
    plan = make_plan(folder, cache=cache, transforms=USERS, shuffle=shuffle, augment=AUGMENTS)
    first, second = Disk(tmp_path / "1"), Disk(tmp_path / "2")
    data_server, at = start(plan, disk_cache=DiskCache(first)), make_pass(epoch=1, batch_size=4)
    in_order = read(readers, plan, make_pass("exact", batch_size=4), data_server)
    whole = read(readers, plan, at, data_server)
    made = ray.get(cast("Any", data_server).cached.remote("train"), timeout=SECONDS)
    told = describe(plan, made.counts)
    assert told
    ray.kill(data_server)

    ids = grouped_rows(plan)["id"].tolist()
    assert [
        row for step in zip(*in_order, strict=True) for rows in step for row in ids_in(rows)
    ] == ids
    assert len(ids_in_all(whole)) == len(ids) - len(ids) % 4
    assert set(ids_in_all(whole)) <= set(ids)

    plans, _ = keep_order({"train": plan}, {"train": told}, mid_pass={"train": True})
    data_server = start(plans["train"], disk_cache=DiskCache(second, (first,)))
    rest = read(readers, plans["train"], replace(at, first_step=4, group=1), data_server)
    assert rest == [rows[4:] for rows in whole]
    assert not (tmp_path / "2").exists()
    ray.kill(data_server)


def ids_in(row: Row) -> list[int]:
    """Return the ids of a batch."""
    return cast("list[int]", row[0])


def ids_in_all(ranks: list[list[Row]]) -> list[int]:
    """Return the ids of all batches of all ranks."""
    return [number for rows in ranks for row in rows for number in ids_in(row)]


def test_a_class_is_made_once_in_each_of_few_processes(
    folder: Path, readers: list[ActorHandle[Reader]]
) -> None:
    made: list[JsonValue] = [{"use": f"{FUNCTIONS}:Counting"}, {"use": f"{FUNCTIONS}:in_process"}]
    plan = make_plan(folder, cache="none", transforms=made)
    data_server, seen = start(plan), set[tuple[float, float]]()
    for epoch in range(3):
        at = make_pass(epoch=epoch, world_size=1)
        seen |= set(ray.get(readers[0].processes.remote(plan, at, data_server), timeout=SECONDS))

    assert {built for _, built in seen} == {1.0}
    assert len(seen) <= 4  # three fragments, three epochs, two CPUs
    ray.kill(data_server)


def test_each_task_is_given_what_the_spec_says(
    folder: Path, readers: list[ActorHandle[Reader]]
) -> None:
    asked: JsonValue = {"cpus": 2, "memory": "100Mi"}
    given: list[JsonValue] = [{"use": f"{FUNCTIONS}:given_to_it"}]
    plan = make_plan(folder, cache="none", transforms=given, task=asked)
    data_server = start(plan)

    rows = read(readers, plan, make_pass(), data_server)

    assert {tuple(value) for rank in rows for _, x, _ in rank for value in cast("Any", x)} == {
        (2.0, 100.0 * 2**20)
    }
    ray.kill(data_server)


@pytest.mark.parametrize("mode", ["none", "local"])
def test_a_dataset_larger_than_the_object_store_streams(
    large: Path, readers: list[ActorHandle[Reader]], mode: str
) -> None:
    shuffle: JsonValue = {"mode": mode} | ({"bufferSize": 4096} if mode == "local" else {})
    plan = make_plan(large, row_bytes=4 * WIDE, cache="none", shuffle=shuffle)
    data_server, at = start(plan), make_pass(batch_size=512)
    counts = [
        reader.count.remote(plan, at, data_server, rank) for rank, reader in enumerate(readers)
    ]
    assert ray.get(counts, timeout=SECONDS) == [16384, 16384]
    ray.kill(data_server)


@dataclass(frozen=True)
class Failing:
    """A dataset that cannot be fed, what is said of it, and the user's frames in its traceback."""

    write: Callable[[Path], None]
    cache: str
    transforms: list[JsonValue]
    want: str
    frames: tuple[str, ...] = ()


HALVED: JsonValue = {"use": "tests.app.misbehaving:halve", "batchSize": 30}
NO_HALF = "LookupError: no half of a row"
FAILING = {
    "a transform, streamed": Failing(write_numbers, "none", [HALVED], NO_HALF, ("halve",)),
    "a transform, while the cache is filled": Failing(
        write_numbers, "objects", [HALVED], NO_HALF, ("halve",)
    ),
    "a damaged row group, while the cache is filled": Failing(
        write_corrupt_numbers, "objects", [], "rows/part-2.parquet: row groups"
    ),
}


@pytest.mark.parametrize("case", FAILING.values(), ids=FAILING)
def test_what_fails_in_ray_data_is_told_to_a_rank_with_the_users_frames_only(
    tmp_path: Path, case: Failing
) -> None:
    case.write(tmp_path)
    plan = make_plan(tmp_path / "rows", cache=case.cache, transforms=case.transforms)
    data_server = start(plan)
    blocks = RemoteSource(plan, data_server, 0)
    with pytest.raises(DataError) as caught:
        list(Feed(plan, blocks, 0).batches(make_pass(world_size=1, batch_size=30)))

    assert case.want in summary(caught.value)
    found = FRAME.finditer(users_traceback(caught.value))
    files = [(Path(frame["file"]), frame["name"]) for frame in found]
    assert tuple(name for file, name in files if file != Path(__file__)) == case.frames
    ray.kill(data_server)


class Counting:
    """An actor that counts what is left out, as the coordinator does."""

    def __init__(self, plan: DatasetPlan) -> None:
        self._left_out = BadRecordLimits((plan,))

    def leave_out(self, told: BadRecordList) -> None:
        """Take it in."""
        self._left_out.take(told)

    def rows(self) -> int:
        """Return how many rows were left out."""
        (told,) = (e for e in self._left_out.events(0.0) if isinstance(e, BadRecords))
        return told.rows


@pytest.mark.parametrize("cache", ["none", "objects"])
def test_bad_rows_are_left_out_of_a_stream_until_they_are_too_many(
    tmp_path: Path, cache: str
) -> None:
    write_rows(tmp_path / "rows", GROUPS)
    transforms: JsonValue = [{"use": f"{FUNCTIONS}:picky", "options": {"bad": [*range(3, 81, 7)]}}]
    for limit in (12, 11):
        plan = make_plan(
            tmp_path / "rows",
            cache=cache,
            transforms=transforms,
            onBadRecord="skip",
            badRecordLimit=limit,
        )
        counting: Any = ray.remote(Counting).options(num_cpus=0).remote(plan)
        data_server = start(with_reporter(plan, BadRecordReporter(counting)))
        feed = Feed(plan, RemoteSource(plan, data_server, 0), 0)
        if limit == 12:
            for epoch in range(2):
                at = make_pass("exact", epoch=epoch, world_size=1)
                ids = [int(row) for table in feed.columns(at) for row in table["id"]]
                assert ids == [row for row in range(81) if row % 7 != 3]
            assert ray.get(counting.rows.remote()) == 12
        else:
            with pytest.raises(DataError, match="12 rows of about 81 are bad, more than"):
                list(feed.columns(make_pass("exact", world_size=1)))
        ray.kill(data_server)


class TellingFeeder(DataServer):
    """A feeder that says what it was told."""

    def told(self) -> Spending:
        """Return what was spent on rows."""
        return self.spent


def spent_on(
    plan: DatasetPlan, batch_size: int = 8, disk_cache: DiskCache | None = None
) -> Spending:
    """Return what a pass of one rank cost, once all of it was told."""
    actor = ray.remote(TellingFeeder).options(num_cpus=0, max_concurrency=8)
    data_server = cast(
        "ActorHandle[TellingFeeder]",
        actor.remote({"train": plan}, ExecutionLimits(2), print, disk_cache),
    )
    blocks = RemoteSource(plan, data_server, 0)
    at = make_pass(world_size=1, batch_size=batch_size)
    rows = sum(batch.rows for batch in Feed(plan, blocks, 0, blocks).batches(at))
    cast("Any", data_server).spend.remote(STAGE_TIMER.take())
    deadline = time.monotonic() + SECONDS
    while True:
        told: Spending = ray.get(cast("Any", data_server).told.remote())
        if all(told.get(StageKey("train", each), Spent()).rows >= rows for each in (DEAL, BATCH)):
            break
        assert time.monotonic() < deadline, told
        time.sleep(0.1)
    ray.kill(data_server)
    return told


MEANS = Means(cpus=2, workers=1, epochs=1)


def test_a_slow_transform_of_tasks_is_told_and_named(tmp_path: Path) -> None:
    name = f"{FUNCTIONS}:slow"
    slow: JsonValue = {"use": name, "options": {"seconds": 0.5}}
    plan = make_plan(
        write_rows(tmp_path, [[80], [80]]),
        cache="none",
        transforms=[{"use": f"{FUNCTIONS}:doubled"}, slow],
    )

    spent = spent_on(plan)

    assert 1.0 <= spent[StageKey("train", "transforms[1]")].seconds < 5.0
    assert spent[StageKey("train", "transforms[0]")].rows == 160
    said = str(say_limit(plan, spent, MEANS))
    assert said.startswith(f"slowest: transform {name} needs ")
    assert "on 2 CPUs for data" in said


def test_filling_a_cache_on_disk_is_no_part_of_what_each_epoch_takes(tmp_path: Path) -> None:
    plan = make_plan(
        write_rows(tmp_path / "rows", [[80], [80]]),
        cache="disk",
        transforms=[{"use": f"{FUNCTIONS}:doubled"}],
    )

    spent = spent_on(plan, disk_cache=DiskCache(Disk(tmp_path / "kept")))

    assert spent[StageKey("train", FILL)].rows == spent[StageKey("train", DEAL)].rows == 160
    assert spent[StageKey("train", READ)].rows
    assert StageKey("train", "transforms[0]") not in spent


def test_counting_rows_is_told_with_their_number(tmp_path: Path) -> None:
    plan = make_plan(
        write_rows(tmp_path, [[80], [80]]),
        cache="none",
        steps="known",
        keeps_rows=False,
        transforms=[{"use": f"{FUNCTIONS}:odd_rows"}],
    )

    spent = spent_on(plan)

    assert spent[StageKey("train", COUNT)].rows == spent[StageKey("train", DEAL)].rows == 80


def test_slow_reading_of_tasks_is_told_and_named(tmp_path: Path) -> None:
    # Rows of text cost far more to decode than to hand over.
    rows = "".join(f'{{"id": {n}, "x": {n / 7}, "y": {n / 3}}}\n' for n in range(200_000))
    (tmp_path / "rows.jsonl").write_text(rows, encoding="ascii")
    plan = make_plan(tmp_path, read={"format": "json"}, cache="none", may_learn=True)

    said = str(say_limit(plan, spent_on(plan, batch_size=8192), MEANS))

    assert said.startswith("slowest: reading json needs ")


def test_what_goes_from_the_object_store_to_disk_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spilling, "LEAST_BYTES", 2**20)
    told: list[str] = []
    spilling.watch_spilling(told.append, seconds_between=0.2)
    held: list[ray.ObjectRef[bytes]] = []
    while not told and len(held) < 100:
        held.append(ray.put(bytes(20 * 2**20)))

    assert [text.partition(":")[0] for text in told] == ["Ray's object stores are full"]
