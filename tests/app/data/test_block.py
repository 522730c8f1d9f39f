"""Columns as Arrow blocks: what they hold is what Ray itself would have put there."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays, boolean_dtypes, floating_dtypes, integer_dtypes
from hypothesis.strategies import integers
from ray.data.block import BlockAccessor

from trainshed.data.feed.datasets import from_block, to_block
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


def _has_nan(values: Array) -> bool:
    return values.dtype.kind == "f" and bool(np.isnan(values).any())
