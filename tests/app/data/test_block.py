"""Columns as Arrow blocks: what they hold is what Ray itself would have put there, on any way."""

import math

import numpy as np
import pyarrow as pa
import pytest
import ray
from hypothesis import given
from hypothesis.extra.numpy import arrays, boolean_dtypes, floating_dtypes, integer_dtypes
from hypothesis.strategies import integers, lists
from ray.data.block import BlockAccessor

from trainshed.data.loader.arrow_blocks import (
    MOST_BYTES,
    filled_up,
    from_block,
    joined,
    most_bytes,
    tables_of,
    to_block,
)
from trainshed.data.sampler.dataset_plan import BLOCK_BYTES
from trainshed.data.sources.column_arrays import Array, Columns, num_rows


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


def ids(*rows: int) -> list[Columns]:
    """Return tables of so many rows of 8 bytes, which are numbered."""
    ends = np.cumsum(rows)
    return [{"id": np.arange(end - n, end)} for n, end in zip(rows, ends, strict=True)]


@pytest.mark.parametrize(
    ("most", "sizes"),
    [
        (32 * 8, [4, 4, 8, 16, 32, 4]),
        (8 * 8, [4, 4, *[8] * 7, 4]),
        (7 * 8, [4] * 17),
        (3 * 8, [2] * 34),
    ],
)
def test_blocks_are_joined_up_to_a_size_each_as_large_as_all_before_it(
    most: int, sizes: list[int]
) -> None:
    made = list(joined(map(to_block, ids(*[4] * 17)), most))

    assert [block.num_rows for block in made] == sizes
    assert pa.concat_tables(made)["id"].to_pylist() == list(range(68))


@given(rows=lists(integers(0, 9), max_size=12), most=integers(1, 200), least_rows=integers(0, 20))
def test_rows_are_joined_in_their_order_and_taken_apart_again(
    rows: list[int], most: int, least_rows: int
) -> None:
    made = list(joined(map(to_block, filled_up(ids(*rows), least_rows)), most))
    tables = [table for block in made for table in tables_of(block, 0, block.num_rows)]

    assert [int(row) for table in tables for row in table["id"]] == list(range(sum(rows)))
    assert all(block.nbytes < most + 8 for block in made), "but for a row"


def test_blocks_with_other_columns_stay_apart() -> None:
    tables: list[Columns] = [*ids(2), {"id": np.zeros((1, 2))}, *ids(1, 1)]

    assert [block.num_rows for block in joined(map(to_block, tables), 2**20)] == [2, 1, 2]


def test_the_parts_of_a_block_are_views_of_it() -> None:
    pictures = np.arange(80, dtype=np.uint8).reshape(8, 10)
    made: list[Columns] = [{"x": pictures[:1]}, {"x": pictures[1:]}]
    first = joined(map(to_block, made), 1000)
    (block,) = joined([pa.concat_tables(first)], 1000)

    tables = list(tables_of(block, 0, 6))

    assert [len(table["x"]) for table in tables] == [1, 5]
    np.testing.assert_array_equal(np.concatenate([each["x"] for each in tables]), pictures[:6])
    held = [chunk.storage.buffers()[-1] for chunk in block["x"].chunks]
    for table, buffer in zip(tables, held, strict=True):
        address = table["x"].__array_interface__["data"][0]
        assert buffer.address <= address < buffer.address + buffer.size


def test_a_part_alone_says_what_type_a_column_has() -> None:
    large = 2**53 + 1
    parts = [np.asarray(values, dtype=object) for values in ([1, None], [large, 2])]
    block = pa.concat_tables([to_block({"id": part}) for part in parts])

    first, second = tables_of(block, 0, 4)

    assert np.isnan(first["id"][1])
    assert second["id"].tolist() == [large, 2]


def test_few_rows_are_joined_with_their_neighbours_where_they_fit_together() -> None:
    texts = [np.asarray(values, dtype=object) for values in (["a"], [None], ["b"], ["c"])]
    ragged = [np.zeros((1, length)) for length in (2, 3, 2, 2)]
    tables: list[Columns] = [{"text": text, "x": x} for text, x in zip(texts, ragged, strict=True)]

    first, second = filled_up(tables, 3)

    assert first["text"].tolist() == ["a", None, "b"]
    assert [row.shape for row in first["x"]] == [(2,), (3,), (2,)]
    assert second["text"].tolist() == ["c"]


def test_rows_that_are_large_are_not_copied() -> None:
    tables: list[Columns] = [{"x": np.full(1, b"x" * 2**20, dtype=object)} for _ in range(3)]

    assert list(map(num_rows, filled_up(tables, 100))) == [1, 1, 1]


def test_few_rows_that_do_not_fit_together_stay_apart() -> None:
    tables: list[Columns] = [{"x": np.asarray([1])}, {"x": np.asarray(["a"])}]

    assert list(filled_up(tables, 3)) == tables


@pytest.mark.parametrize(
    ("stores", "cpus", "bytes_a_second", "most"),
    [
        ([2**30], 1, math.inf, MOST_BYTES),
        ([2**30, 2**29], 1, math.inf, 2**24),
        ([90 * 2**20], 1, math.inf, BLOCK_BYTES),
        ([], 1, math.inf, BLOCK_BYTES),
        ([2**30], 1, 6.0 * 2**20, 12 * 2**20),
        ([2**30], 1, 1.0, BLOCK_BYTES),
        ([2**32], 16, math.inf, 17 * 2**20),
        ([2**30], 16, math.inf, BLOCK_BYTES),
    ],
)
def test_blocks_have_a_share_of_the_smallest_store_and_take_two_seconds(
    stores: list[int],
    cpus: int,
    bytes_a_second: float,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, other = {"group": "data"}, {"group": "other"}
    nodes = [(True, data, store) for store in stores] + [(True, other, 1), (False, data, 1)]
    told = [
        {"Alive": alive, "Labels": labels, "Resources": {"object_store_memory": store}}
        for alive, labels, store in nodes
    ]
    monkeypatch.setattr(ray, "nodes", lambda: told)

    assert most_bytes(data, cpus, bytes_a_second) == most


def _has_nan(values: Array) -> bool:
    return values.dtype.kind == "f" and bool(np.isnan(values).any())
