"""Rows as Arrow blocks: built from columns, joined for the transfer to ranks, and split there.

Transfers use few large blocks, as each costs the same, but no rank waits for one to be full. A
joined block keeps its parts: nothing is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import ray
from ray.data.block import BlockAccessor

from trainshed.data.sampler.dataset_plan import BLOCK_BYTES
from trainshed.data.sources.arrow_columns import from_arrow, has_fields
from trainshed.data.sources.column_arrays import as_objects, cut_rows, join, nbytes, num_rows
from trainshed.data.sources.errors import DataError
from trainshed.ray_compat.execution import READY_BYTES_A_CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ray.data.block import Block

    from trainshed.data.sources.column_arrays import Array, Columns

# Column with a row's position in a global shuffle.
POSITION = "__trainshed_position__"
# Ray takes some 6 ms of a core for each block of any size: in the dealing actor, in the rank and in
# Ray's processes. That is a tenth of the decoding time of 8 MB of pictures.
MOST_BYTES = 32 * 2**20
# Share of the smallest object store: each rank has blocks waiting, and others use the store, too.
SHARE_OF_STORE = 32
# Tables of this many rows are not worth a copy.
LEAST_BYTES = 2**20
# Maximum seconds to wait for a block, as far as the time of rows is known.
MOST_SECONDS = 2.0


def to_block(columns: Columns) -> Block:
    """Return an Arrow block; arrays of more than one axis become tensor columns."""
    columns = {name: _as_lists(array) for name, array in columns.items()}
    # Ray inspects each value of an object column, 0.1 us a value; the type of numbers is known.
    numbers = {name: pa.array(array) for name, array in columns.items() if _are_numbers(array)}
    block = BlockAccessor.batch_to_block(
        {name: array for name, array in columns.items() if name not in numbers}
    )
    if not (numbers and isinstance(block, pa.Table)):
        return BlockAccessor.batch_to_block(columns)
    made = {name: numbers[name] if name in numbers else block[name] for name in columns}
    return pa.table(made)


def _as_lists(array: Array) -> Array:
    """Return rows with several texts, or bytes, as lists: Ray pickles arrays of objects."""
    if array.dtype != object or array.ndim > 1:
        return array
    rows: list[object] = array.tolist()
    # The first row with one text, or with several, decides.
    sized = ((row, row.size if isinstance(row, np.ndarray) else 0) for row in rows)
    first = next((row for row, size in sized if size or isinstance(row, (str, bytes))), None)
    if not isinstance(first, np.ndarray) or first.dtype != object:
        return array
    if not isinstance(first.flat[0], (str, bytes)):
        return array
    return as_objects([row.tolist() if isinstance(row, np.ndarray) else row for row in rows])


def _are_numbers(array: Array) -> bool:
    return array.dtype.kind in "biuf" and array.ndim == 1 and array.dtype.isnative


def from_block(block: Block) -> Columns:
    """Return the columns of a block, as views where Arrow allows."""
    accessor = BlockAccessor.for_block(block)
    if not isinstance(block, pa.Table):
        columns: Columns = accessor.to_numpy()  # type: ignore[assignment]
    else:
        # Ray may make floats of integers, as some values are missing.
        doubtful = [
            each.name
            for each in block.schema
            if has_fields(each.type)
            or (pa.types.is_integer(each.type) and block.column(each.name).null_count)
        ]
        others = [name for name in block.column_names if name not in doubtful]
        found: Columns = accessor.to_numpy(others)  # type: ignore[assignment]
        for name, array in from_arrow(block.select(doubtful)).items():
            is_masked = isinstance(array, np.ma.MaskedArray)
            found[name] = as_objects(array.tolist()) if is_masked else array
        columns = {name: found[name] for name in block.column_names}
    columns.pop(POSITION, None)
    return columns


def most_bytes(node_labels: Mapping[str, str], cpus: int, bytes_a_second: float) -> int:
    """Return the maximum size of blocks in a pass.

    Args:
        node_labels: of the nodes that make them.
        cpus: that make them.
        bytes_a_second: output of one CPU.
    """
    stores = [
        node["Resources"].get("object_store_memory", 0)
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"] and node_labels.items() <= node["Labels"].items()
    ]
    store = min(stores, default=0)
    # Ray reserves two blocks for each task before its first output, and otherwise runs fewer tasks.
    ready = min(READY_BYTES_A_CPU * (cpus + 1), store / 2) / (4 * cpus)
    most = min(MOST_BYTES, store / SHARE_OF_STORE, ready, MOST_SECONDS * bytes_a_second)
    return int(max(BLOCK_BYTES, most))


def filled_up(tables: Iterable[Columns], least_rows: int) -> Iterator[Columns]:
    """Yield the same rows in tables with a minimum of rows, or of a megabyte, if they match.

    Small tables, as of small files or after a filter, are copied for that.
    """
    held: list[Columns] = []
    rows = size = 0
    for columns in tables:
        held.append(columns)
        rows += num_rows(columns)
        # With many rows the size does not matter, and computing it for texts takes time.
        size += nbytes(columns) if rows < least_rows else 0
        if rows >= least_rows or size >= LEAST_BYTES:
            yield from _in_one_table(held)
            held, rows, size = [], 0, 0
    yield from _in_one_table(held)


def _in_one_table(held: list[Columns]) -> Iterable[Columns]:
    try:
        return [join(held)] if held else []
    except DataError:  # reported by the rank if one batch needs both
        return held


def joined(blocks: Iterable[Block], most: int) -> Iterator[Block]:
    """Yield fewer and larger blocks with the same rows, each as large as all before it.

    Boundaries depend only on the rows, never on time: Ray makes the blocks of a lost task again,
    and identifies them by number.

    Args:
        blocks: in the order they are made.
        most: maximum bytes of one; larger ones are split.
    """
    held: list[Block] = []
    size = gone = 0
    for block in blocks:
        num_bytes = BlockAccessor.for_block(block).size_bytes()
        if held and (size + num_bytes > most or not _may_join(held[0], block)):
            yield from cut_block(_in_one(held), most)
            held, size, gone = [], 0, gone + size
        held.append(block)
        size += num_bytes
        if size >= min(most, gone):
            yield from cut_block(_in_one(held), most)
            held, size, gone = [], 0, gone + size
    if held:
        yield from cut_block(_in_one(held), most)


def _may_join(first: Block, block: Block) -> bool:
    are_arrow = isinstance(first, pa.Table) and isinstance(block, pa.Table)
    return are_arrow and first.schema == block.schema


def _in_one(held: list[Block]) -> Block:
    return held[0] if len(held) == 1 else pa.concat_tables(held)


def cut_block(block: Block, most: int) -> Iterator[Block]:
    """Yield the rows of a block in views with at most about this many bytes."""
    whole = BlockAccessor.for_block(block)
    rows = whole.num_rows()
    count = max(1, min(rows, -(-whole.size_bytes() // most)))
    for number in range(count):
        start, stop = (rows * each // count for each in (number, number + 1))
        yield whole.slice(start, stop) if count > 1 else block


def tables_of(block: Block, start: int, stop: int) -> Iterator[Columns]:
    """Yield rows [start, stop) of a block in the parts that it was joined from, as views.

    Each part has its own column types, independent of the rest of the block.
    """
    if not isinstance(block, pa.Table):
        yield cut_rows(from_block(block), start, stop)
        return
    for part in block.slice(start, stop - start).to_batches():
        yield from_block(pa.Table.from_batches([part]))
