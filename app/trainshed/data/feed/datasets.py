"""Ray datasets of prepared rows: whole for the cache, in the order of a pass for a stream."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import ray
from ray.data import Dataset
from ray.data.block import BlockAccessor

from trainshed.data.order.permutation import Indices, Piece, cut
from trainshed.data.read.apply import transform
from trainshed.data.read.columns import Columns, cut_rows, join
from trainshed.data.read.errors import DataError
from trainshed.data.read.source import (
    Part,
    Reading,
    augmented,
    first_rows,
    parts,
    read_parts,
    read_whole,
    reading,
)
from trainshed.functions import find
from trainshed.ray_seams.execution import Task, block_by_block, dataset_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ray.data.block import Block

    from trainshed.data.order.files import Fragment
    from trainshed.data.order.function import Function
    from trainshed.data.order.plan import DatasetPlan

# Column that carries a row's place through a global shuffle.
POSITION = "__trainshed_position__"
# A task costs some 10 ms beside its work; its blocks come one by one while it runs.
TASK_BYTES = 64 * 2**20


def fragments_dataset(plan: DatasetPlan) -> Dataset:
    """Return a Ray dataset of all fragments after the transforms, one task and block a fragment."""
    assert plan.source
    how = reading(plan)
    return _dataset(
        plan,
        [
            Task(functools.partial(_whole_block, how, fragment), fragment.rows)
            for fragment in plan.source.fragments
        ],
    )


def streamed_dataset(
    plan: DatasetPlan, how: Reading, pieces: Sequence[Piece], cpus: int
) -> Dataset:
    """Return a Ray dataset of pieces in their order, transformed and augmented, block by block."""
    tasks = [
        Task(functools.partial(_blocks, how, parts(plan, group)), sum(p.rows for p in group))
        for group in _grouped(plan, pieces, cpus)
    ]
    return block_by_block(_dataset(plan, tasks), plan.block_rows * plan.row_bytes, cpus)


def cached_dataset(
    plan: DatasetPlan,
    how: Reading,
    blocks: Sequence[ray.ObjectRef[Block]],
    counts: Indices,
    pieces: Sequence[Piece],
) -> Dataset:
    """Return a Ray dataset of pieces of cached blocks in their order, augmented."""
    firsts = first_rows(counts)
    tasks = [
        Task(
            functools.partial(
                _cached_block, how, [blocks[piece.fragment]], piece, int(firsts[piece.fragment])
            ),
            piece.rows,
        )
        for piece in pieces
    ]
    return _dataset(plan, tasks)


def sorted_dataset(plan: DatasetPlan, how: Reading, positions: Indices) -> Dataset:
    """Return a Ray dataset of all rows in the order of their positions, without those at -1.

    Args:
        plan: of the dataset.
        how: its rows are read.
        positions: (rows,) place of each row in the stream.
    """
    assert plan.source
    shared = [ray.put(positions)]
    whole = [Piece(number, 0, int(rows)) for number, rows in enumerate(plan.counts)]
    tasks = [
        Task(functools.partial(_placed_block, how, part, shared), part.stop)
        for part in parts(plan, whole)
    ]
    return _dataset(plan, tasks).sort(POSITION)


def recut_dataset(
    plan: DatasetPlan, blocks: Sequence[ray.ObjectRef[Block]], counts: Indices, wanted: Indices
) -> Dataset:
    """Return a Ray dataset of the rows of blocks in their order, cut into blocks of other sizes.

    Args:
        plan: of the dataset.
        blocks: at least one.
        counts: (blocks,) rows of each.
        wanted: rows that each is to have; as many in all.
    """
    ends = np.cumsum(wanted)
    in_order = np.arange(len(counts), dtype=np.int64)
    tasks = []
    for span in np.stack([ends - wanted, ends], axis=1):
        # A block without rows has the columns of the others.
        pieces = cut(in_order, counts, span[None]) or [Piece(0, 0, 0)]
        cuts = [([blocks[piece.fragment]], piece) for piece in pieces]
        tasks.append(Task(functools.partial(_joined_block, cuts), int(span[1] - span[0])))
    return _dataset(plan, tasks)


def function_dataset(plan: DatasetPlan) -> Dataset:
    """Return the dataset that `read.use` makes, after the transforms.

    Raises:
        DataError: when the function returns something else.
    """
    assert plan.use
    made = find(plan.use.use, plan.use.field)(**dict(plan.use.options))
    if not isinstance(made, Dataset):
        raise DataError(
            f"{plan.use.field}: {plan.use.use} returned a {type(made).__name__}, "
            "want a ray.data.Dataset"
        )
    if not plan.transforms:
        return made
    apply = functools.partial(_transform_batch, plan.transforms)
    transformed: Dataset = made.map_batches(apply, batch_size=None, batch_format="numpy")
    return transformed


def to_block(columns: Columns) -> Block:
    """Return an Arrow block; arrays of more than one axis become tensor columns."""
    return BlockAccessor.batch_to_block(columns)


def from_block(block: Block) -> Columns:
    """Return the columns of a block, views of it where Arrow allows."""
    columns: Columns = BlockAccessor.for_block(block).to_numpy()  # type: ignore[assignment]
    columns.pop(POSITION, None)
    return columns


def _transform_batch(functions: Sequence[Function], batch: Columns) -> Columns:
    return transform(batch, functions)


def _whole_block(how: Reading, fragment: Fragment) -> Iterator[Block]:
    yield to_block(read_whole(how, fragment))


def _blocks(how: Reading, wanted: Sequence[Part]) -> Iterator[Block]:
    for columns, _ in read_parts(how, wanted):
        yield to_block(columns)


def _cached_block(
    how: Reading, block: Sequence[ray.ObjectRef[Block]], piece: Piece, first: int
) -> Iterator[Block]:
    # The reference travels inside a list: Ray would replace a bare one by its value.
    columns = cut_rows(from_block(ray.get(block[0])), piece.start, piece.stop)
    ids = np.arange(piece.start, piece.stop, dtype=np.int64) + first
    yield to_block(augmented(how, columns, ids))


def _joined_block(
    wanted: Sequence[tuple[Sequence[ray.ObjectRef[Block]], Piece]],
) -> Iterator[Block]:
    tables = [
        cut_rows(from_block(ray.get(block[0])), piece.start, piece.stop) for block, piece in wanted
    ]
    yield to_block(join(tables))


def _placed_block(
    how: Reading, part: Part, shared: Sequence[ray.ObjectRef[Indices]]
) -> Iterator[Block]:
    positions = ray.get(shared[0])
    for columns, ids in read_parts(how, [part]):
        place = positions[ids]
        kept = place >= 0
        yield to_block(
            {name: array[kept] for name, array in columns.items()} | {POSITION: place[kept]}
        )


def _grouped(plan: DatasetPlan, pieces: Sequence[Piece], cpus: int) -> Iterator[list[Piece]]:
    """Yield neighbouring pieces for each task: enough work, and enough tasks for all CPUs."""
    rows = sum(piece.rows for piece in pieces)
    most = min(TASK_BYTES / plan.row_bytes, rows / (2 * cpus))
    group: list[Piece] = []
    have = 0
    for piece in pieces:
        if group and have + piece.rows > most:
            yield group
            group, have = [], 0
        group.append(piece)
        have += piece.rows
    if group:
        yield group


def _dataset(plan: DatasetPlan, tasks: Sequence[Task]) -> Dataset:
    name = "->".join([plan.name, *(function.name for function in plan.transforms)])
    return dataset_of(name, tasks, plan.row_bytes)
