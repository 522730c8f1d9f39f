"""Rows are the same ones, whichever tables they come in and are cut into."""

import random
from collections.abc import Iterator, Sequence
from itertools import cycle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.data.loader.row_tables import LARGE_ROW_BYTES, ArrivingRows, Rows
from trainshed.data.loader.table_streams import recut
from trainshed.data.sources.arrow_columns import in_tables
from trainshed.data.sources.column_arrays import Array, Columns, as_column, join
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.fragment_reader import Table

LISTS = st.lists(st.lists(st.integers(0, 9), max_size=2), min_size=1, max_size=12)


def tables_of(lists: Sequence[Sequence[int]], rows: int) -> Iterator[Table]:
    """Yield lists in tables of so many rows; those of one length are an array there."""
    table, first = pa.table({"tokens": pa.array(lists, pa.list_(pa.int64()))}), 0
    for columns in in_tables(table, rows):
        ids = np.arange(first, first + len(columns["tokens"]))
        yield columns, ids
        first += len(ids)


def lists_of(columns: Columns) -> list[list[int]]:
    return [row.tolist() for row in columns["tokens"]]


@given(LISTS, st.integers(1, 4), st.integers(1, 5))
def test_lists_of_any_length_stay_so_however_they_are_cut(
    lists: list[list[int]], rows: int, size: int
) -> None:
    """Where a table had one length alone, and its neighbour several, they could not be one."""
    sizes = np.diff([*range(0, len(lists), size), len(lists)])

    found = [lists_of(columns) for columns, _ in recut(tables_of(lists, rows), sizes)]

    assert [row for some in found for row in some] == lists


def test_rows_are_used_while_others_arrive() -> None:
    fetched: list[int] = []

    def tables() -> Iterator[Columns]:
        for first in range(0, 10, 2):
            fetched.append(first)
            yield {"x": np.arange(first, first + 2)}

    rows = ArrivingRows(tables(), np.arange(100, 110))

    for wanted, last in (([3, 1], 2), ([5, 4], 4), ([], 4), ([9, 0], 8), ([2, 3], 8)):
        columns, ids = rows.table(np.asarray(wanted, dtype=np.int64))
        assert columns["x"].tolist() == wanted
        assert ids.tolist() == [100 + row for row in wanted]
        assert fetched[-1] == last


@pytest.mark.parametrize("others", [np.ones((2, 2), "float32"), np.ones((2, 3), "int64")])
def test_rows_have_the_same_shape_and_type_after_all_have_arrived(others: Array) -> None:
    tables: list[Columns] = [{"x": np.ones((2, 3), "float32")}, {"x": others}]
    rows = ArrivingRows(iter(tables), np.arange(4))

    def batches() -> list[tuple[str, tuple[int, ...]]]:
        arrays = [rows.table(np.asarray(wanted))[0]["x"] for wanted in ([1, 0], [3, 2])]
        return [(array.dtype.name, array.shape) for array in arrays]

    first = batches()

    assert first == [("float32", (2, 3)), (others.dtype.name, others.shape)]
    assert batches() == first


def test_rows_that_do_not_arrive_are_an_error() -> None:
    rows = ArrivingRows(iter([{"x": np.arange(4)}]), np.arange(6))

    with pytest.raises(RuntimeError, match="4 rows came, 6 were to"):
        rows.table(np.asarray([5]))


def test_a_stream_that_failed_has_the_same_error_in_the_next_pass() -> None:
    def tables() -> Iterator[Columns]:
        yield {"x": np.arange(4)}
        raise DataError("a row that cannot be read")

    rows = ArrivingRows(tables(), np.arange(8))

    for _ in range(2):
        with pytest.raises(DataError, match="a row that cannot be read"):
            rows.table(np.asarray([5]))


@given(LISTS, st.integers(1, 4), st.randoms())
def test_lists_of_any_length_are_taken_in_any_order(
    lists: list[list[int]], rows: int, chance: random.Random
) -> None:
    tables = list(tables_of(lists, rows))
    held = Rows([columns for columns, _ in tables], np.arange(len(lists)))
    order = list(range(len(lists)))
    chance.shuffle(order)

    assert lists_of(held.take(np.asarray(order))) == [lists[place] for place in order]
    assert lists_of(held.compact().take(np.arange(len(held)))) == lists


@pytest.mark.parametrize("width", [1, 40, LARGE_ROW_BYTES])
@pytest.mark.parametrize("turn", [1, -1], ids=["as they lie", "turned"])
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.randoms())
def test_rows_of_any_width_are_taken_in_any_order(
    width: int, turn: int, rows: list[int], chance: random.Random
) -> None:
    ends = np.cumsum([0, *rows]).tolist()
    numbers = np.arange(ends[-1])
    # Narrow types beside wide ones, and memory that lies in another order than rows do.
    tables = [
        {"x": np.repeat(numbers[begin:end, None], width, 1).astype(dtype)[:, ::turn]}
        for begin, end, dtype in zip(ends, ends[1:], cycle([np.int16, np.int32]), strict=False)
    ]
    order = chance.choices(numbers.tolist(), k=len(numbers)) if len(numbers) else []

    taken = Rows(tables, numbers).take(np.asarray(order, dtype=np.int64))

    assert [set(row.tolist()) for row in taken.get("x", ())] == [{number} for number in order]


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_row_that_is_not_there_is_not_taken(wrong: int) -> None:
    with pytest.raises(IndexError, match="of 4 rows"):
        Rows([{"x": np.arange(4)}], np.arange(4)).take(np.asarray([1, wrong]))


def test_single_values_beside_arrays_are_refused_by_their_column() -> None:
    with pytest.raises(DataError, match="do not fit together: column x has single values beside"):
        join([{"x": np.zeros((2, 3))}, {"x": np.zeros(2)}])


LARGE = 2**53 + 1


def test_tables_of_several_types_are_joined_and_taken_where_all_values_stay() -> None:
    tables = [{"x": np.array([LARGE - 1])}, {"x": np.array([0.5], np.float32)}]

    for made in (join(tables), Rows(tables, np.arange(2)).take(np.array([0, 1]))):
        assert (str(made["x"].dtype), made["x"].tolist()) == ("float64", [2.0**53, 0.5])


def test_integers_that_floats_beside_them_would_round_are_refused() -> None:
    tables = [{"x": np.array([LARGE])}, {"x": np.array([0.5])}]

    said = rf"column x of int64 beside float64: got {LARGE}; expected an integer that float64 holds"
    with pytest.raises(DataError, match=said):
        join(tables)
    with pytest.raises(DataError, match=said):
        Rows(tables, np.arange(2))


def test_numbers_that_only_numpy_knows_are_joined_as_it_does() -> None:
    made = join([{"x": np.array([1], np.longdouble)}, {"x": np.array([LARGE])}])
    assert made["x"].tolist() == [1, LARGE]


def test_a_list_whose_integers_numpy_would_round_is_refused() -> None:
    with pytest.raises(ValueError, match=rf"a list with {2**63 + 5} beside other numbers"):
        as_column([2**63 + 5, -1])
    assert as_column([2**63, -1.5]).tolist() == [2.0**63, -1.5]
    assert as_column([LARGE, 1]).tolist() == [LARGE, 1]
