"""Columns as Arrow blocks: what they hold is what Ray itself would have put there, on any way."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays, boolean_dtypes, floating_dtypes, integer_dtypes
from hypothesis.strategies import booleans, integers, lists
from ray.data.block import BlockAccessor

from trainshed.data.feed.arrow_blocks import (
    LEAST_PART_BYTES,
    MOST_SECONDS,
    from_block,
    joined,
    tables_of,
    to_block,
)
from trainshed.data.read.columns import Array


@given(
    arrays(
        dtype=boolean_dtypes() | integer_dtypes(endianness="=") | floating_dtypes(endianness="="),
        shape=integers(0, 5),
    ),
    integers(1, 3),
)
def test_numbers_are_as_ray_has_them(values: Array, step: int) -> None:
    columns = {"some": values[::step], "turned": values[::-step]}
    block = to_block(columns)
    assert block.equals(BlockAccessor.batch_to_block(columns)) or _has_nan(values)
    for name, array in from_block(block).items():
        np.testing.assert_array_equal(array, columns[name])
        assert array.dtype == values.dtype


@pytest.mark.parametrize(
    "other",
    [
        np.zeros((2, 3), dtype=np.float32),
        np.asarray(["a", "b"]),
        np.asarray([b"a", None], dtype=object),
        np.asarray(["2026-01-01", "2026-01-02"], dtype="datetime64[s]"),
        np.asarray([1, 2], dtype=">i4"),
    ],
    ids=["tensors", "texts", "bytes", "days", "swapped"],
)
def test_columns_keep_their_order_beside_others(other: Array) -> None:
    columns = {"first": np.arange(2), "other": other, "last": np.asarray([0.5, 1.5])}
    block = to_block(columns)
    assert block.column_names == list(columns)
    assert block.schema.equals(BlockAccessor.batch_to_block(columns).schema)
    for name, array in from_block(block).items():
        np.testing.assert_array_equal(array, columns[name])


def test_no_columns_are_a_block_too() -> None:
    assert to_block({}).equals(pa.table({}))


def ids(*rows: int) -> list[pa.Table]:
    """Return blocks of so many rows of 8 bytes, which are numbered."""
    ends = np.cumsum(rows)
    return [to_block({"id": np.arange(end - n, end)}) for n, end in zip(rows, ends, strict=True)]


def standing_still() -> float:
    return 0.0


@pytest.mark.parametrize(
    ("is_waited_for", "most", "sizes"),
    [
        (True, 32 * 8, [4, 4, 8, 16, 32, 4]),
        (True, 8 * 8, [4, 4, *[8] * 7, 4]),
        (False, 32 * 8, [32, 32, 4]),
        (False, 3 * 8, [4] * 17),
        (False, 2 * 8, [2] * 34),
    ],
)
def test_blocks_are_joined_up_to_a_size_but_the_first_for_which_somebody_waits(
    is_waited_for: bool, most: int, sizes: list[int]
) -> None:
    made = list(joined(ids(*[4] * 17), most, is_waited_for=is_waited_for, clock=standing_still))

    assert [block.num_rows for block in made] == sizes
    assert pa.concat_tables(made)["id"].to_pylist() == list(range(68))


@given(rows=lists(integers(0, 9), max_size=12), most=integers(1, 200), is_waited_for=booleans())
def test_rows_are_joined_in_their_order_and_taken_apart_again(
    rows: list[int], most: int, is_waited_for: bool
) -> None:
    made = list(joined(ids(*rows), most, is_waited_for=is_waited_for, clock=standing_still))
    tables = [table for block in made for table in tables_of(block, 0, block.num_rows)]

    assert [int(row) for table in tables for row in table["id"]] == list(range(sum(rows)))


def test_rows_that_take_long_are_waited_for_by_nobody_else() -> None:
    times = iter([0.0, 0.9 * MOST_SECONDS, MOST_SECONDS, MOST_SECONDS, 1.5 * MOST_SECONDS])

    made = joined(ids(1, 1, 1), 2**20, is_waited_for=False, clock=lambda: next(times))

    assert [block.num_rows for block in made] == [2, 1]


def test_blocks_with_other_columns_stay_apart() -> None:
    blocks = [*ids(2), to_block({"id": np.zeros((1, 2))}), *ids(1, 1)]

    made = list(joined(blocks, 2**20, is_waited_for=False, clock=standing_still))

    assert [block.num_rows for block in made] == [2, 1, 2]


def test_large_parts_of_a_block_are_views_of_it() -> None:
    pictures = np.arange(4 * LEAST_PART_BYTES, dtype=np.uint8).reshape(8, -1)
    (block,) = joined(
        [to_block({"x": pictures[:4]}), to_block({"x": pictures[4:]})],
        2**30,
        is_waited_for=False,
        clock=standing_still,
    )

    tables = list(tables_of(block, 1, 7))

    assert [len(table["x"]) for table in tables] == [3, 3]
    np.testing.assert_array_equal(np.concatenate([each["x"] for each in tables]), pictures[1:7])
    held = [chunk.storage.buffers()[-1] for chunk in block["x"].chunks]
    for table, buffer in zip(tables, held, strict=True):
        address = table["x"].__array_interface__["data"][0]
        assert buffer.address <= address < buffer.address + buffer.size


def _has_nan(values: Array) -> bool:
    return values.dtype.kind == "f" and bool(np.isnan(values).any())
