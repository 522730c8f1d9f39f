"""Rows as Arrow blocks: made of columns, joined for their way to the ranks, and taken apart there.

Few large blocks travel, as each costs the same, but nobody waits for one to be full. A joined one
has its parts as they were made: nothing is copied.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import ray
from ray.data.block import BlockAccessor

from trainshed.data.order.plan import BLOCK_BYTES
from trainshed.data.read.columns import cut_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ray.data.block import Block

    from trainshed.data.read.columns import Array, Columns

# Column that carries a row's place through a global shuffle.
POSITION = "__trainshed_position__"
# Ray takes some 6 ms of a core for each block, however small it is: in the actor that deals, in the
# rank and in its own processes. That is a tenth of what decoding pictures of 8 MB takes.
MOST_BYTES = 32 * 2**20
# A dozen of them may be on their way at once, and others use the object store, too.
SHARE_OF_STORE = 32
# Rows that take longer than that go at once.
MOST_SECONDS = 0.25
# Smaller parts than that are cheaper in one piece, though it is a copy.
LEAST_PART_BYTES = 2**20


def to_block(columns: Columns) -> Block:
    """Return an Arrow block; arrays of more than one axis become tensor columns."""
    # Ray asks each value of a column for its type, 0.1 us a value; that of numbers is known.
    numbers = {name: pa.array(array) for name, array in columns.items() if _are_numbers(array)}
    block = BlockAccessor.batch_to_block(
        {name: array for name, array in columns.items() if name not in numbers}
    )
    if not (numbers and isinstance(block, pa.Table)):
        return BlockAccessor.batch_to_block(columns)
    made = {name: numbers[name] if name in numbers else block[name] for name in columns}
    return pa.table(made)


def _are_numbers(array: Array) -> bool:
    return array.dtype.kind in "biuf" and array.ndim == 1 and array.dtype.isnative


def from_block(block: Block) -> Columns:
    """Return the columns of a block, views of it where Arrow allows."""
    columns: Columns = BlockAccessor.for_block(block).to_numpy()  # type: ignore[assignment]
    columns.pop(POSITION, None)
    return columns


def most_bytes(node_labels: Mapping[str, str]) -> int:
    """Return the bytes that blocks may have on the nodes with these labels."""
    stores = [
        node["Resources"].get("object_store_memory", 0)
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"] and node_labels.items() <= node["Labels"].items()
    ]
    return int(max(BLOCK_BYTES, min(MOST_BYTES, min(stores, default=0) / SHARE_OF_STORE)))


def joined(
    blocks: Iterable[Block],
    most: int,
    *,
    is_waited_for: bool,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Block]:
    """Yield fewer and larger blocks with the same rows.

    Args:
        blocks: as they are made.
        most: bytes of one; larger ones are cut.
        is_waited_for: whether somebody waits for the first of them: it goes as it is, and each
            later one is as large as all before it.
        clock: tells seconds.
    """
    held: list[pa.Table] = []
    size, gone, begun = 0, 0 if is_waited_for else most, clock()
    for block in blocks:
        if not isinstance(block, pa.Table) or (held and block.schema != held[0].schema):
            yield from _in_one(held, most)
            held, size = [], 0
        if not isinstance(block, pa.Table):
            yield block
            continue
        held.append(block)
        size += block.nbytes
        if size >= min(most, gone) or clock() - begun >= MOST_SECONDS:
            yield from _in_one(held, most)
            held, size, gone, begun = [], 0, gone + size, clock()
    yield from _in_one(held, most)


def _in_one(held: list[pa.Table], most: int) -> Iterator[pa.Table]:
    if not held:
        return
    block = held[0] if len(held) == 1 else pa.concat_tables(held)
    count = max(1, min(block.num_rows, block.nbytes // most))
    for number in range(count):
        start, stop = (block.num_rows * each // count for each in (number, number + 1))
        yield block.slice(start, stop - start) if count > 1 else block


def tables_of(block: Block, start: int, stop: int) -> Iterator[Columns]:
    """Yield rows [start, stop) of a block in the parts that it was joined of, which are views."""
    if not isinstance(block, pa.Table):
        yield cut_rows(from_block(block), start, stop)
        return
    wanted = block.slice(start, stop - start)
    parts = wanted.to_batches()
    if len(parts) * LEAST_PART_BYTES > wanted.nbytes:
        yield from_block(wanted)
        return
    for part in parts:
        yield from_block(pa.Table.from_batches([part]))
