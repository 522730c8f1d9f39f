"""Reading one piece of a dataset: the same function in a Ray Data task and in a torch DataLoader."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.apply import augment, transform
from trainshed.data.columns import Columns, cut_rows, num_rows
from trainshed.data.order import Indices, Piece
from trainshed.data.parquet import DataError, read_fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import ray
    from ray.data import Dataset
    from ray.data.block import Block
    from ray.data.context import DataContext

    from trainshed.data.plan import DatasetPlan

# Column that carries a row's place through a global shuffle.
POSITION = "__trainshed_position__"


def first_rows(counts: Indices) -> Indices:
    """Return the position in the dataset of each fragment's first row, shape (fragments,)."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)


def piece_ids(piece: Piece, firsts: Indices) -> Indices:
    """Return the positions in the dataset of a piece's rows, shape (rows,)."""
    return np.arange(piece.start, piece.stop, dtype=np.int64) + firsts[piece.fragment]


def read_whole(plan: DatasetPlan, fragment: int) -> Columns:
    """Return a fragment's rows after the transforms, which may change their number."""
    assert plan.source
    return transform(read_fragment(plan.source.fragments[fragment], plan.columns), plan.transforms)


def read_piece(plan: DatasetPlan, piece: Piece) -> Columns:
    """Return a piece's rows after the transforms.

    Raises:
        DataError: when a transform changes the number of rows.
    """
    columns = read_whole(plan, piece.fragment)
    assert plan.source
    fragment = plan.source.fragments[piece.fragment]
    if num_rows(columns) != fragment.rows:
        raise DataError(
            f"{plan.field}.transforms: {num_rows(columns)} rows came back for the {fragment.rows} of "
            f"{fragment.path}; without a cache the number of rows must stay: set cache: objects"
        )
    return cut_rows(columns, piece.start, piece.stop)


def augmented(
    plan: DatasetPlan, columns: Columns, ids: Indices, seed: int, epoch: int | None
) -> Columns:
    """Return the columns augmented for an epoch; None leaves them as they are."""
    if epoch is None or not plan.augments:
        return columns
    return augment(columns, plan.augments, ids, seed, epoch)


def to_block(columns: Columns) -> Block:
    """Return an Arrow block; arrays of more than one axis become tensor columns."""
    from ray.data.block import BlockAccessor

    return BlockAccessor.batch_to_block(columns)


def from_block(block: Block) -> Columns:
    """Return the columns of a block, views of it where Arrow allows."""
    from ray.data.block import BlockAccessor

    columns: Columns = BlockAccessor.for_block(block).to_numpy()  # type: ignore[assignment]
    return columns


def fragments_dataset(plan: DatasetPlan) -> Dataset:
    """Return a Ray dataset of all fragments after the transforms, one task a fragment."""
    assert plan.source
    work = [
        (functools.partial(_whole_block, plan, number), fragment.rows, fragment.num_bytes)
        for number, fragment in enumerate(plan.source.fragments)
    ]
    return _dataset(plan, work)


def pieces_dataset(
    plan: DatasetPlan, pieces: Sequence[Piece], seed: int, epoch: int | None
) -> Dataset:
    """Return a Ray dataset of pieces in the given order, transformed and augmented, one task a piece."""
    firsts = first_rows(plan.counts)
    work = []
    for piece in pieces:
        read = functools.partial(read_piece, plan, piece)
        ids = piece_ids(piece, firsts)
        work.append(
            (
                functools.partial(_augmented_block, plan, read, ids, seed, epoch),
                piece.rows,
                _estimate(plan, piece.rows),
            )
        )
    return _dataset(plan, work)


def cached_dataset(
    plan: DatasetPlan,
    blocks: Sequence[ray.ObjectRef[Block]],
    counts: Indices,
    pieces: Sequence[Piece],
    seed: int,
    epoch: int | None,
) -> Dataset:
    """Return a Ray dataset of pieces of cached blocks, augmented, one task a piece."""
    firsts = first_rows(counts)
    work = []
    for piece in pieces:
        read = functools.partial(_cut_cached, [blocks[piece.fragment]], piece)
        ids = piece_ids(piece, firsts)
        work.append(
            (
                functools.partial(_augmented_block, plan, read, ids, seed, epoch),
                piece.rows,
                _estimate(plan, piece.rows),
            )
        )
    return _dataset(plan, work)


def sorted_dataset(plan: DatasetPlan, positions: Indices, seed: int, epoch: int | None) -> Dataset:
    """Return a Ray dataset of all rows in the order of their positions; those at -1 are left out.

    Args:
        plan: of the dataset.
        positions: (rows,) place of each row in the stream.
        seed: the run's seed.
        epoch: 0-based, None without augmentation.
    """
    import ray

    shared = ray.put(positions)
    firsts = first_rows(plan.counts)
    work = []
    for number, rows in enumerate(plan.counts):
        piece = Piece(number, 0, int(rows))
        ids = piece_ids(piece, firsts)
        work.append(
            (
                functools.partial(_placed_block, plan, piece, ids, [shared], seed, epoch),
                int(rows),
                _estimate(plan, int(rows)),
            )
        )
    return _dataset(plan, work).sort(POSITION)


def function_dataset(plan: DatasetPlan) -> Dataset:
    """Return the dataset that `read.use` makes, after the transforms.

    Raises:
        DataError: when the function returns something else.
    """
    import ray.data

    from trainshed.functions import find

    assert plan.use
    made = find(plan.use.use, plan.use.field)(**dict(plan.use.options))
    if not isinstance(made, ray.data.Dataset):
        raise DataError(
            f"{plan.use.field}: {plan.use.use} returned a {type(made).__name__}, want a ray.data.Dataset"
        )
    if not plan.transforms:
        return made
    return made.map_batches(
        functools.partial(_transform_batch, plan), batch_size=None, batch_format="numpy"
    )


def _transform_batch(plan: DatasetPlan, batch: Columns) -> Columns:
    return transform(batch, plan.transforms)


def _whole_block(plan: DatasetPlan, fragment: int) -> Iterable[Block]:
    yield to_block(read_whole(plan, fragment))


def _augmented_block(
    plan: DatasetPlan, read: Callable[[], Columns], ids: Indices, seed: int, epoch: int | None
) -> Iterable[Block]:
    yield to_block(augmented(plan, read(), ids, seed, epoch))


def _placed_block(
    plan: DatasetPlan,
    piece: Piece,
    ids: Indices,
    shared: Sequence[ray.ObjectRef[Indices]],
    seed: int,
    epoch: int | None,
) -> Iterable[Block]:
    import ray

    columns = augmented(plan, read_piece(plan, piece), ids, seed, epoch)
    place = ray.get(shared[0])[ids]
    kept = place >= 0
    yield to_block({name: array[kept] for name, array in columns.items()} | {POSITION: place[kept]})


def _cut_cached(block: Sequence[ray.ObjectRef[Block]], piece: Piece) -> Columns:
    import ray

    # The reference travels inside a list: Ray would replace a bare one by its value.
    return cut_rows(from_block(ray.get(block[0])), piece.start, piece.stop)


def _estimate(plan: DatasetPlan, rows: int) -> int:
    """Return the bytes that so many rows will have, 1 at least: Ray Data plans its memory by it."""
    known = plan.rows or 0
    return max(1, int((plan.num_bytes or 0) / known * rows)) if known else 1


def _dataset(
    plan: DatasetPlan, work: Sequence[tuple[functools.partial[Iterable[Block]], int, int]]
) -> Dataset:
    import ray.data
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class Pieces(Datasource):
        """Prepared pieces of a dataset; the name is what Ray's dashboard shows."""

        def get_name(self) -> str:
            return "->".join([plan.name, *(function.name for function in plan.transforms)])

        def estimate_inmemory_data_size(self) -> int | None:
            return sum(num_bytes for _, _, num_bytes in work)

        def get_read_tasks(
            self,
            parallelism: int,
            per_task_row_limit: int | None = None,
            data_context: DataContext | None = None,
        ) -> list[ReadTask]:
            return [
                ReadTask(
                    read,
                    BlockMetadata(
                        num_rows=rows, size_bytes=num_bytes, input_files=None, exec_stats=None
                    ),
                    per_task_row_limit=per_task_row_limit,
                )
                for read, rows, num_bytes in work
            ]

    return ray.data.read_datasource(Pieces(), override_num_blocks=len(work))
