"""Ray datasets of prepared rows: whole for the cache, in the order of a pass for a stream."""

from __future__ import annotations

import functools
import itertools
import os
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.data import Dataset
from ray.data.block import BlockAccessor

from trainshed.allocator import keep_freed_memory
from trainshed.data.loader import ray_readers
from trainshed.data.loader.arrow_blocks import POSITION, filled_up, from_block, joined, to_block
from trainshed.data.loader.buffer_pool import lent_for
from trainshed.data.loader.object_store_cache import CachedBlocks
from trainshed.data.loader.rows_file import RowsFile
from trainshed.data.loader.table_streams import dealt, woven
from trainshed.data.sampler.dataset_plan import BLOCK_BYTES
from trainshed.data.sampler.epoch_pass import delivery, first_read, part_of, segments_of, steps_for
from trainshed.data.sampler.mixing import MixedOrder, gathered
from trainshed.data.sampler.permutation import EpochPermutation, Indices, RowRange, first_rows
from trainshed.data.sampler.stage_time import COUNT, DEAL, FILL, Spent, StageKey
from trainshed.data.sources.apply_functions import transform
from trainshed.data.sources.column_arrays import cut_rows, join, take_rows
from trainshed.data.sources.defer_interrupts import UNBROKEN
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.fragment_reader import (
    Part,
    Reading,
    Table,
    as_kept,
    augmented,
    count_rows,
    parts,
    parts_of,
    read_parts,
    read_rows,
    read_whole,
    reading,
)
from trainshed.data.sources.opener import ACCESS
from trainshed.data.sources.stage_timer import STAGE_TIMER, TELLER
from trainshed.functions import find
from trainshed.ray_compat.execution import (
    Needs,
    Task,
    actor_of,
    block_by_block,
    dataset_of,
    map_blocks,
    sorted_by,
    this_actor,
)
from trainshed.ray_compat.lost_blocks import block_of
from trainshed.storage import durable_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ray.actor import ActorHandle
    from ray.data.block import Block

    from trainshed.data.sampler.batch_layout import BatchLayout
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import Delivery, EpochPass
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.function import Function
    from trainshed.data.sampler.mixing import Segment
    from trainshed.data.sampler.stage_time import Spending
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.storage.folder import Folder

# Column with the number of a row's fragment.
FRAGMENT = "__trainshed_fragment__"
# Column with the rows of a fragment.
TALLY = "rows"
# A fragment's rows are a file in a separate folder: a storage publishes whole folders.
ROWS_FILE = "rows.parquet"
# Rows to deliver together: smaller tables are joined by a copy.
LEAST_SHARE = 8
# A task costs some 10 ms beside its work; it streams its blocks.
TASK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Sizes:
    """How much of a pass is made at once.

    Args:
        cpus: for the tasks.
        block_bytes: maximum bytes of a block for one rank.
    """

    cpus: int
    block_bytes: int

    def block_rows(self, plan: DatasetPlan) -> int:
        """Return the maximum rows of a block for one rank."""
        if self.block_bytes <= BLOCK_BYTES:
            return plan.block_rows
        return max(plan.block_rows, int(self.block_bytes / plan.row_bytes))


class Listener(Protocol):
    """The actor that requests datasets."""

    def spend(self, spending: Spending) -> None:
        """Add the time that a task has spent on rows since its last report."""
        ...


def fragments_dataset(plan: DatasetPlan) -> Dataset:
    """Return a Ray dataset of all fragments after the transforms, a task and block each."""
    assert plan.source
    how = reading(plan)
    tasks = [
        Task(functools.partial(_whole_block, how, fragment), rows_of(plan, fragment))
        for fragment in plan.source.fragments
    ]
    return tasks_dataset(plan, tasks, FILL)


def tallied_dataset(plan: DatasetPlan) -> Dataset:
    """Return a Ray dataset with the number of rows of each fragment after the transforms."""
    assert plan.source
    how = reading(plan)
    tasks = [
        Task(functools.partial(_tallied_block, how, each), 1) for each in plan.source.fragments
    ]
    return tasks_dataset(plan, tasks, COUNT, _rows_in_it)


def rows_of(plan: DatasetPlan, fragment: Fragment) -> int:
    """Return the estimated rows of a task, by which Ray Data plans its memory."""
    if fragment.rows is not None:
        return round(plan.growth * fragment.rows)
    assert plan.source
    share = fragment.num_bytes / max(1, plan.source.num_bytes)
    return max(1, round(plan.growth * plan.source.likely_rows * share))


@dataclass(frozen=True)
class Origin:
    """The source of a dataset's rows: its files, or its cache.

    Args:
        plan: of the dataset.
        counts: (fragments,) rows of each fragment after the transforms.
        blocks: one for each fragment; None if files are read.
        kept: files with the transformed rows of one fragment each; empty without a disk cache.
    """

    plan: DatasetPlan
    counts: Indices
    blocks: Sequence[ray.ObjectRef[Block]] | None = None
    kept: Sequence[Fragment] = ()

    @functools.cached_property
    def first_ids(self) -> Indices:
        """Return the id of each fragment's first row, shape (fragments,)."""
        given = self.plan.given_ids
        return first_rows(self.counts) if given is None else given

    def tables(self, at: EpochPass, segment: Segment) -> Callable[[], Iterator[Table]]:
        """Return a function that yields the rows of a segment, augmented; it runs in a task."""
        how = self.reading(at, segment.epoch)
        if self.blocks is None:
            return functools.partial(read_parts, how, self.parts(segment.pieces))
        wanted = [
            ([self.blocks[piece.fragment]], piece, int(self.first_ids[piece.fragment]))
            for piece in segment.pieces
        ]
        return functools.partial(_cached_tables, how, wanted)

    def reading(self, at: EpochPass, epoch: int) -> Reading:
        """Return the reading options of an epoch of the dataset."""
        how = reading(self.plan, at.seed, None if at.in_file_order else epoch)
        return as_kept(how) if self.kept else how

    def parts(self, pieces: Sequence[RowRange]) -> list[Part]:
        """Return the ranges with everything needed to read them from files."""
        if not self.kept:
            return parts(self.plan, pieces)
        return parts_of(self.kept, self.first_ids, pieces)


def uncounted_dataset(
    plan: DatasetPlan, at: EpochPass, fragments: Sequence[int], sizes: Sizes
) -> Dataset:
    """Return a Ray dataset with a task per fragment, whose rows have the fragment's number.

    Args:
        plan: of the dataset.
        at: the pass.
        fragments: in order.
        sizes: of tasks and blocks.
    """
    assert plan.source
    how = reading(plan, at.seed, None if at.in_file_order else at.epoch)
    tasks, sent = [], functools.partial(_sent, plan.block_rows, sizes.block_bytes)
    for number in fragments:
        fragment, first = plan.source.fragments[number], int(plan.first_ids[number])
        make = functools.partial(_numbered_blocks, how, fragment, number, first, sent)
        tasks.append(Task(make, rows_of(plan, fragment)))
    return block_by_block(tasks_dataset(plan, tasks), sizes.cpus)


def dealt_dataset(  # noqa: PLR0913, PLR0917 - what a pass is made of
    plan: DatasetPlan,
    origins: Sequence[Origin],
    at: EpochPass,
    base: EpochPermutation | MixedOrder,
    deal: Delivery,
    sizes: Sizes,
) -> Dataset:
    """Return a Ray dataset whose tasks each return a few delivery chunks, rank by rank.

    Args:
        plan: of the dataset.
        origins: of the mixed datasets, or its own.
        at: the pass.
        base: its order.
        deal: the stream.
        sizes: of tasks and blocks.
    """
    tasks = []
    sent = functools.partial(_sent, plan.block_rows, sizes.block_bytes)
    woven_by = base if isinstance(base, MixedOrder) and base.is_woven else None
    for some in deal.turns_by_task():
        begin, end = some[0], some[-1]
        reads = [
            origins[segment.source].tables(part_of(plan, origins[segment.source].plan, at), segment)
            for segment in segments_of(base, at, begin, end)
        ]
        order = None
        if woven_by is not None:
            span = (woven_by.begin + begin, woven_by.begin + end)
            order = functools.partial(gathered, woven_by.pattern, *span)
        send = sent
        if not deal.steps.has_one_reader:
            send = functools.partial(_dealt, deal.steps, some, sizes.block_rows(plan))
        make = functools.partial(_delivered_blocks, plan.field, reads, order, some, send)
        tasks.append(Task(make, end - begin))
    return block_by_block(tasks_dataset(plan, tasks), sizes.cpus)


def delivery_of(
    plan: DatasetPlan,
    origins: Sequence[Origin],
    at: EpochPass,
    base: EpochPermutation | MixedOrder,
    sizes: Sizes,
) -> Delivery:
    """Return the stream of a pass, in chunks and tasks of suitable sizes.

    Args:
        plan: of the dataset.
        origins: of the mixed datasets, or its own.
        at: the pass.
        base: its order.
        sizes: of tasks and blocks.
    """
    is_woven = isinstance(base, MixedOrder) and base.is_woven
    is_sorted = isinstance(base, EpochPermutation) and base.mixed is not None
    steps = steps_for(plan, at, base.rows)
    left = steps.rows - steps.start(first_read(plan, at, steps))
    # Enough work for a task of more than one chunk, and for all CPUs.
    task_rows = min(TASK_BYTES / plan.row_bytes, left / (2 * sizes.cpus))
    # Rows of the first chunk, and of the largest one: suitable blocks for each rank.
    first, most = (at.world_size * each for each in (plan.block_rows, sizes.block_rows(plan)))
    turn_rows = min(first, task_rows), min(most, task_rows)
    if plan.spec.shuffle.mode == "global" and plan.source:
        # A block is a task of the sort: as many as there are fragments, as Ray would choose.
        block_rows = base.rows / max(1, len(plan.source.fragments))
        most_rows = at.world_size * min(block_rows, TASK_BYTES / plan.row_bytes)
        turn_rows = most_rows, most_rows
    return delivery(
        plan,
        at,
        base,
        turn_rows,
        task_rows,
        by_fragments=not (is_woven or is_sorted) and any(each.blocks is None for each in origins),
    )


def sorted_dataset(origin: Origin, how: Reading, deal: Delivery) -> Dataset:
    """Return a Ray dataset of a globally shuffled stream, a block for each rank and chunk.

    Args:
        origin: the dataset's files.
        how: reading options.
        deal: the stream.
    """
    assert deal.places is not None
    plan, shared = origin.plan, [ray.put(deal.places)]
    whole = [
        RowRange(number, 0, int(rows), is_last=True) for number, rows in enumerate(origin.counts)
    ]
    tasks = [
        Task(functools.partial(_placed_block, how, part, shared), part.stop)
        for part in origin.parts(whole)
        if part.stop
    ]
    counts = [rows for _, rows in deal.dealt]
    if deal.steps.has_one_reader:
        counts = np.diff(deal.turns).tolist()
    return sorted_by(tasks_dataset(plan, tasks), POSITION, np.cumsum(counts[:-1]).tolist())


def recut_dataset(
    plan: DatasetPlan, blocks: Sequence[ray.ObjectRef[Block]], counts: Indices, wanted: Indices
) -> Dataset:
    """Return a Ray dataset of the rows of blocks in order, split into other sizes.

    Args:
        plan: of the dataset.
        blocks: at least one.
        counts: (blocks,) rows of each.
        wanted: rows of each new block; the same sum.
    """
    ends = np.cumsum(wanted)
    base = EpochPermutation(np.arange(len(counts), dtype=np.int64), counts)
    tasks = []
    for start, stop in zip((ends - wanted).tolist(), ends.tolist(), strict=True):
        # A block without rows has the columns of the others.
        pieces = base.pieces(start, stop) or [RowRange(0, 0, 0)]
        cuts = [([blocks[piece.fragment]], piece) for piece in pieces]
        tasks.append(Task(functools.partial(_joined_block, cuts), stop - start))
    return tasks_dataset(plan, tasks, FILL)


def function_dataset(plan: DatasetPlan, transforms: Sequence[Function]) -> Dataset:
    """Return the dataset of `read.use` or `read.reader`, after some transforms.

    Raises:
        DataError: if the function returns anything else.
    """
    assert plan.use
    make, options = find(plan.use.use, plan.use.field), dict(plan.use.options)
    if plan.use.use.startswith(f"{ray_readers.MODULE}:"):
        field = ray_readers.options_field(plan.use.field)
        options = ray_readers.with_functions(make, options, field)
        ray_readers.check_shards(plan.use.use, options, field)
    made = make(**options)
    if not isinstance(made, Dataset):
        raise DataError(
            f"{plan.use.field}: {plan.use.use} returned a {type(made).__name__}; "
            "expected a ray.data.Dataset"
        )
    if not transforms:
        return made
    apply = functools.partial(_transformed_block, transforms)
    return blocks_dataset(plan, made, apply)


def kept_dataset(
    plan: DatasetPlan, made: Dataset | None, folder: Folder, prefix: str, written: Mapping[int, str]
) -> Dataset:
    """Return a Ray dataset that writes all rows after the transforms.

    Its rows describe the files, in order: name, rows, row groups and bytes.

    Args:
        plan: of the dataset.
        made: all rows, for a file per block; None for a file per fragment.
        folder: of the files.
        prefix: of their names.
        written: names of files that exist already, by number of the fragment.
    """
    if made is not None:
        write = functools.partial(_written, folder, plan.field, prefix)
        return blocks_dataset(plan, made, lambda block: write([block]))
    assert plan.source
    how = reading(plan)
    tasks = []
    for number, fragment in enumerate(plan.source.fragments):
        write = functools.partial(_written, folder, plan.field, f"{prefix}{number:08d}-")
        make = functools.partial(_kept_block, how, fragment, write)
        if name := written.get(number):
            make = functools.partial(_written_before, folder, name, make)
        tasks.append(Task(make, 1))
    return tasks_dataset(plan, tasks, FILL, _rows_in_it)


def materialized(dataset: Dataset) -> CachedBlocks:
    """Return the blocks of a dataset, once all are made and in the object store."""
    entries = [
        entry
        for bundle in dataset.materialize().iter_internal_ref_bundles()
        for entry in bundle.blocks
    ]
    return CachedBlocks(
        tuple(entry.ref for entry in entries),
        np.asarray([entry.metadata.num_rows for entry in entries], dtype=np.int64),
        num_bytes=sum(entry.metadata.size_bytes or 0 for entry in entries),
    )


def _rows_of_block(block: Block) -> int:
    return BlockAccessor.for_block(block).num_rows()


def _rows_in_it(block: Block) -> int:
    """Return the sum of the row counts in a block."""
    return int(from_block(block)[TALLY].sum())


def tasks_dataset(
    plan: DatasetPlan,
    tasks: Sequence[Task],
    stage: str = DEAL,
    rows: Callable[[Block], int] = _rows_of_block,
) -> Dataset:
    """Return a Ray dataset from tasks.

    Args:
        plan: of the dataset.
        tasks: in order.
        stage: for time that is not measured inside the tasks.
        rows: that a block represents.
    """
    name = "->".join([plan.name, *(function.name for function in plan.transforms)])
    told = this_actor()
    key = StageKey(plan.name, stage)
    if stage == FILL and plan.cache == "disk":
        # The cache is read in each epoch, which counts as another stage.
        tasks = [replace(each, make=functools.partial(_as_one, key, each.make)) for each in tasks]
    metered = [
        replace(task, make=functools.partial(_metered, key, task.make, rows, told))
        for task in tasks
    ]
    return dataset_of(name, metered, plan.row_bytes, Needs(plan.task_cpus, plan.task_memory))


def blocks_dataset(plan: DatasetPlan, made: Dataset, make: Callable[[pa.Table], Block]) -> Dataset:
    """Return a Ray dataset of a function's result for each block with rows."""
    metered = functools.partial(_metered_block, make, this_actor())
    return map_blocks(made, metered, Needs(plan.task_cpus, plan.task_memory))


def _transformed_block(functions: Sequence[Function], block: pa.Table) -> Block:
    return to_block(transform(from_block(block), functions))


def _whole_block(how: Reading, fragment: Fragment) -> Iterator[Block]:
    yield to_block(read_whole(how, fragment))


def _numbered_blocks(
    how: Reading,
    fragment: Fragment,
    number: int,
    first: int,
    sent: Callable[[Iterable[Table]], Iterator[Block]],
) -> Iterator[Block]:
    tables = (
        (columns | {FRAGMENT: np.full(len(ids), number, dtype=np.int32)}, ids)
        for columns, ids in read_rows(how, fragment, first)
    )
    yield from sent(tables)


def _kept_block(
    how: Reading, fragment: Fragment, write: Callable[[Iterable[Block]], Block]
) -> Iterator[Block]:
    yield write(to_block(columns) for columns, _ in read_rows(how, fragment, 0))


def _written_before(
    folder: Folder, name: str, make: Callable[[], Iterator[Block]]
) -> Iterator[Block]:
    """Yield what `_written` returned for a file, or make another if it is damaged."""
    try:
        with ACCESS.opened(f"{folder}/{name}/{ROWS_FILE}") as raw:
            footer, size = pq.read_metadata(raw), raw.size()
    except (OSError, pa.ArrowException):
        yield from make()
    else:
        yield _file_block(name, footer.num_rows, footer.num_row_groups, size)


def _file_block(name: str, rows: int, groups: int, size: int) -> Block:
    return pa.table({"name": [name], "rows": [rows], "groups": [groups], "bytes": [size]})


def _written(folder: Folder, field: str, prefix: str, tables: Iterable[Block]) -> Block:
    """Write tables into one file and return its name, rows, row groups and bytes."""
    name = f"{prefix}{uuid.uuid4().hex}"
    with folder.aside("rows that cache: disk keeps") as made:
        (made / name).mkdir()
        path = made / name / ROWS_FILE
        made_of = RowsFile(path, field)
        for table in tables:
            made_of.add(table)
        made_of.close()
        with path.open("rb+") as file:  # sync before the list, in case the power fails
            durable_files.sync(file)
            size = file.seek(0, os.SEEK_END)
        folder.adopt(made / name, name, ROWS_FILE)
    return _file_block(name, made_of.rows, made_of.groups, size)


def _tallied_block(how: Reading, fragment: Fragment) -> Iterator[Block]:
    yield to_block({TALLY: np.asarray([count_rows(how, fragment)], dtype=np.int64)})


def _sent(block_rows: int, most_bytes: int, tables: Iterable[Table]) -> Iterator[Block]:
    """Yield blocks of a suitable size for one rank, or for all of them."""
    columns = filled_up((columns for columns, _ in tables), block_rows // LEAST_SHARE)
    yield from joined(map(to_block, columns), most_bytes)


def _dealt(
    steps: BatchLayout, turns: Sequence[int], most_rows: int, tables: Iterator[Table]
) -> Iterator[Block]:
    """Yield blocks for each rank of each chunk, between positions of the order."""
    yield from map(to_block, dealt(tables, steps, turns, most_rows))


def _delivered_blocks(
    field: str,
    reads: Sequence[Callable[[], Iterator[Table]]],
    order: Callable[[], Indices] | None,
    turns: Sequence[int],
    send: Callable[[Iterator[Table]], Iterator[Block]],
) -> Iterator[Block]:
    """Yield the blocks of a few delivery chunks.

    Args:
        field: of the dataset.
        reads: of one segment of the order after the other.
        order: called in the task; returns the order of interleaved rows, all of which are held in
            memory. None if the rows are in order.
        turns: starts of the chunks and the end.
        send: makes blocks of tables.
    """
    tables: Iterator[Table] = itertools.chain.from_iterable(read() for read in reads)
    if order is not None:
        tables = woven(tables, order(), np.diff(np.asarray(turns)), field)
    yield from send(tables)


def columns_of(block: Sequence[ray.ObjectRef[Block]]) -> Columns:
    """Return the columns of a block, whose reference is in a list: Ray replaces a bare one."""
    return from_block(block_of(block[0]))


def _cached_tables(
    how: Reading, wanted: Sequence[tuple[Sequence[ray.ObjectRef[Block]], RowRange, int]]
) -> Iterator[Table]:
    for block, piece, first in wanted:
        columns = cut_rows(columns_of(block), piece.start, piece.stop)
        ids = np.arange(piece.start, piece.stop, dtype=np.int64) + first
        yield augmented(how, columns, ids), ids


def _joined_block(
    wanted: Sequence[tuple[Sequence[ray.ObjectRef[Block]], RowRange]],
) -> Iterator[Block]:
    tables = [cut_rows(columns_of(block), piece.start, piece.stop) for block, piece in wanted]
    yield to_block(join(tables))


def _placed_block(
    how: Reading, part: Part, shared: Sequence[ray.ObjectRef[Indices]]
) -> Iterator[Block]:
    places = ray.get(shared[0])
    for columns, ids in read_parts(how, [part]):
        place = places[ids - part.first + part.place]
        kept = np.flatnonzero(place >= 0)
        yield to_block(take_rows(columns, kept) | {POSITION: place[kept]})


def _as_one(key: StageKey, make: Callable[[], Iterable[Block]]) -> Iterator[Block]:
    """Yield the blocks of a task with few blocks; all of its time counts to one stage."""
    with STAGE_TIMER.whole(key):
        made = list(make())
    yield from made


def _metered(
    key: StageKey,
    make: Callable[[], Iterable[Block]],
    rows: Callable[[Block], int],
    told: bytes | None,
) -> Iterator[Block]:
    """Yield the blocks; report their time to the requesting actor."""
    _begin(told)
    for block in STAGE_TIMER.each(key, lent_for(make()), rows):
        begun = time.thread_time()
        yield block
        # CPU time, because a task also waits here while nobody takes its blocks.
        STAGE_TIMER.add({key: Spent(time.thread_time() - begun)})
        del block
    # Ray ends a process that is idle for a second.
    TELLER.tell_now()


def _metered_block(make: Callable[[pa.Table], Block], told: bytes | None, block: pa.Table) -> Block:
    """Return the result for a block; report the time of the functions in it."""
    _begin(told)
    made = make(block)
    TELLER.tell_now()
    return made


def _begin(told: bytes | None) -> None:
    """Prepare this process to reuse memory and imports, and to report its time to an actor."""
    keep_freed_memory()
    UNBROKEN.begin()
    if told is not None:
        actor = cast("ActorHandle[Listener]", actor_of(told))
        TELLER.tell(actor.spend.remote)
