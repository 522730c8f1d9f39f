"""Parts of a dataset: cut anywhere and read one after the other, they give the same rows."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.data.builders_formats import open_files, read_all, write_csv
from tests.app.data.builders_plan import FUNCTIONS, counted, cut_parts, make_plan, write_rows
from trainshed.data.sampler.dataset_plan import OrderFingerprint
from trainshed.data.sampler.permutation import EpochPermutation, RowRange
from trainshed.data.sources.column_arrays import join
from trainshed.data.sources.dataset_files import read_sample
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.fragment_reader import (
    FragmentReader,
    Part,
    Reading,
    parts,
    read_parts,
    read_rows,
    read_whole,
    reading,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

SIZES = (16, 39, 26)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Reading, list[Part]]:
    folder = write_rows(tmp_path_factory.mktemp("rows"), ([5, 11], [1, 30, 8], [26]))
    plan = make_plan(folder, row_bytes=2**21)
    pieces = [RowRange(number, 0, rows) for number, rows in enumerate(SIZES)]
    return reading(plan), parts(plan, pieces)


def rows_of(how: Reading, wanted: list[Part], reader: FragmentReader) -> list[int]:
    """Return the rows of parts that are asked for one by one, as a process is."""
    tables = [table for part in wanted for table in read_parts(how, [part], reader=reader)]
    return [int(row) for _, ids in tables for row in ids]


@settings(max_examples=20)
@given(rows=st.integers(1, 50), start=st.integers(0, 15), stop=st.integers(1, 26))
def test_parts_that_are_cut_hold_the_same_rows_at_the_same_places(
    whole: tuple[Reading, list[Part]], rows: int, start: int, stop: int
) -> None:
    how, (first, middle, last) = whole
    wanted = [
        Part(first.fragment, first.first, start, 16, 100),
        Part(middle.fragment, middle.first, 0, 39, 116 - start),
        Part(last.fragment, last.first, 0, stop, 155 - start),
    ]
    cut = cut_parts(wanted, rows)

    assert rows_of(how, cut, FragmentReader()) == list(range(start, 55 + stop))
    assert all(part.stop - part.start <= rows for part in cut)
    ends = [part.place + part.stop - part.start for part in cut]
    assert [100, *ends[:-1]] == [part.place for part in cut]


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_reader_may_be_asked_for_parts_in_any_order(
    whole: tuple[Reading, list[Part]], seed: int
) -> None:
    how, wanted = whole
    cut = cut_parts(wanted, 7)
    order = np.random.default_rng(seed).integers(0, len(cut), 12)
    asked = [cut[number] for number in order]

    assert rows_of(how, asked, FragmentReader()) == [
        part.first + row for part in asked for row in range(part.start, part.stop)
    ]


def test_no_function_is_asked_to_take_no_rows(tmp_path: Path) -> None:
    """In chunks of 4 rows, of some of which none is left: numpy.stack raised on these."""
    write_rows(tmp_path, [[27]])
    transforms: JsonValue = [{"use": f"{FUNCTIONS}:{name}"} for name in ("odd_rows", "stacked")]
    read: dict[str, JsonValue] = {"where": "id in (7, 8, 20, 25)"}
    plan = make_plan(tmp_path, row_bytes=2**21, cache="none", read=read, transforms=transforms)
    assert plan.source

    found = read_whole(reading(plan), plan.source.fragments[0])

    assert found["id"].tolist() == [7, 25]
    assert found["id"].dtype == np.int64


def test_rows_hang_on_no_number_of_rows_that_are_read_at_once(tmp_path: Path) -> None:
    write_rows(tmp_path, ([16], [11]))
    noise: JsonValue = [{"use": f"{FUNCTIONS}:noise"}]
    doubled: JsonValue = [{"use": f"{FUNCTIONS}:doubled"}]
    plan = make_plan(tmp_path, transforms=doubled, augment=noise)
    large = replace(plan, read_bytes=2**21)
    assert (plan.chunk_rows, large.chunk_rows) == (plan.block_rows, 4)
    assert plan.source

    for fragment in plan.source.fragments:
        ways = [list(read_rows(reading(each, 1, 2), fragment, 3)) for each in (plan, large)]
        assert (len(ways[0]), len(ways[1])) == (1, -(-(fragment.rows or 0) // 4))
        one, other = (
            {name: np.concatenate([table[name] for table, _ in way]) for name in ("id", "x")}
            for way in ways
        )
        assert one["id"].tolist() == other["id"].tolist()
        np.testing.assert_array_equal(one["x"], other["x"])


def test_a_function_gets_as_many_rows_as_it_asks_for(tmp_path: Path) -> None:
    asked: JsonValue = [{"use": f"{FUNCTIONS}:doubled", "batchSize": 24}]
    plan = make_plan(write_rows(tmp_path, [[5]]), transforms=asked)
    assert replace(plan, read_bytes=2**23).chunk_rows == 24
    few = replace(make_plan(tmp_path, row_bytes=2**21, transforms=asked), read_bytes=2**23)
    assert few.chunk_rows == few.block_rows == 4


@pytest.mark.parametrize("row_bytes", [20.0, 2**21])
def test_more_rows_than_were_counted_are_not_left_out(tmp_path: Path, row_bytes: float) -> None:
    """As by a filter that was loosened since: an epoch ended where the old count did."""
    plan = make_plan(
        write_rows(tmp_path, [[27]]),
        row_bytes=row_bytes,
        cache="none",
        keeps_rows=False,
        transforms=[{"use": f"{FUNCTIONS}:odd_rows"}],
    )
    wanted = parts(plan, EpochPermutation(np.asarray([0]), counted(plan)).pieces(0, 13))
    how, earlier = (
        reading(plan),
        reading(replace(plan, kept=OrderFingerprint((13,), under_way=True))),
    )

    for each in (how, earlier):
        assert rows_of(each, cut_parts(wanted, 3), FragmentReader()) == list(range(13))
    with pytest.raises(DataError, match=r"part-000.parquet has more rows than the 13 that it had"):
        rows_of(replace(earlier, transforms=()), cut_parts(wanted, 3), FragmentReader())
    # What this attempt has counted is not looked at again: a fragment would be read to its end.
    assert rows_of(replace(how, transforms=()), wanted, FragmentReader()) == list(range(13))


def test_a_fragment_without_a_row_has_none(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 3)
    write_csv(tmp_path / "b.csv", 3, 0)
    plan = make_plan(tmp_path, read={"format": "csv"})
    assert plan.source

    assert read_whole(reading(plan), plan.source.fragments[1]) == {}


WHOLE: dict[str, pa.Array] = {
    "integers": pa.array([1, 2, 3, 4, 5, 6]),
    "booleans": pa.array([True, False, True, True, False, True]),
}


@pytest.mark.parametrize("values", WHOLE.values(), ids=WHOLE)
def test_values_of_which_one_is_missing_are_floats_in_every_chunk(
    tmp_path: Path, values: pa.Array
) -> None:
    """Only the chunk with it had others: a batch's type hung on which rows were in it."""
    lacking = pc.if_else(pa.array([True] * 4 + [False, True]), values, None)
    table = pa.table({"lacking": lacking, "whole": values})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    plan = make_plan(tmp_path, row_bytes=2**22)
    assert plan.source

    (fragment,) = plan.source.fragments
    chunks = [columns for columns, _ in read_rows(reading(plan), fragment, 0)]

    assert len(chunks) == 3
    assert {columns["lacking"].dtype for columns in chunks} == {np.dtype("float64")}
    assert {columns["whole"].dtype.kind for columns in chunks} <= {"i", "b"}
    found = join(chunks)
    assert np.isnan(found["lacking"]).tolist() == [False] * 4 + [True, False]
    assert np.delete(found["lacking"], 4).tolist() == np.delete(found["whole"], 4).tolist()


def test_values_that_are_missing_without_a_word_of_the_footer_are_found(tmp_path: Path) -> None:
    """The chunk with them was of floats, those before it were of integers."""
    table = pa.table({"label": pa.array([1, 2, 3, 4, None, 6], pa.int64())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2, write_statistics=False)
    plan = make_plan(tmp_path, row_bytes=2**22)
    assert plan.source

    (fragment,) = plan.source.fragments
    chunks = [columns["label"] for columns, _ in read_rows(reading(plan), fragment, 0)]

    assert [str(chunk.tolist()) for chunk in chunks] == ["[1.0, 2.0]", "[3.0, 4.0]", "[nan, 6.0]"]


def test_values_without_statistics_are_as_they_are(tmp_path: Path) -> None:
    table = pa.table({"label": pa.array([1, 2, 3]), "x": [0.5, None, 1.5]})
    pq.write_table(table, tmp_path / "a.parquet", write_statistics=False)
    plan = make_plan(tmp_path)
    assert plan.source

    found = read_whole(reading(plan), plan.source.fragments[0])

    assert found["label"].tolist() == [1, 2, 3]
    assert found["label"].dtype == np.int64
    assert np.isnan(found["x"]).tolist() == [False, True, False]


def test_which_columns_are_floats_is_told_in_one_order(tmp_path: Path) -> None:
    """Rows that are kept on disk hang on it: another attempt had another order, and made them."""
    names = [f"column {number}" for number in range(9)]
    table = pa.table({name: pa.array([1, None], pa.int64()) for name in reversed(names)})
    pq.write_table(table, tmp_path / "a.parquet")

    assert f"floats={tuple(names)!r}" in repr(open_files(tmp_path, "parquet").scan)


def test_lists_of_which_a_chunk_has_one_length_go_with_those_of_others(tmp_path: Path) -> None:
    """Such a chunk is an array of two axes, which no other could be joined to."""
    lists = [[1], [1, 2], [3]]
    pq.write_table(pa.table({"tokens": lists}), tmp_path / "a.parquet")
    plan = make_plan(tmp_path)
    assert plan.source

    found = read_whole(replace(reading(plan), chunk_rows=2), plan.source.fragments[0])

    assert [row.tolist() for row in found["tokens"]] == lists


def write_int96(path: Path, years: Sequence[int]) -> None:
    """Write the first of January of years as Spark wrote times for long, alone and in a struct."""
    times = [datetime(year, 1, 1) for year in years]
    table = pa.table({"id": range(len(years)), "at": times, "both": [{"at": at} for at in times]})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False)


@pytest.mark.parametrize("chunk_rows", [1, 100])
def test_times_of_96_bits_stay_nanoseconds(tmp_path: Path, chunk_rows: int) -> None:
    write_int96(tmp_path / "a.parquet", [1700, 2020])
    source = open_files(tmp_path, "parquet")

    found = read_all(source, chunk_rows=chunk_rows)

    assert source.schema is not None
    assert source.schema.field("at").type == pa.timestamp("ns")
    assert found["at"].dtype == np.dtype("datetime64[ns]")
    assert found["at"].astype("datetime64[Y]").astype(str).tolist() == ["1700", "2020"]
    assert [each["at"] for each in found["both"]] == found["at"].astype(np.int64).tolist()
    (fragment,) = source.fragments
    assert read_sample(source.scan, fragment, (), 1)["at"].tolist() == found["at"][:1].tolist()


@pytest.mark.parametrize("column", ["at", "both"])
def test_times_of_96_bits_that_nanoseconds_do_not_reach_are_refused(
    tmp_path: Path, column: str
) -> None:
    """The year 9999, by which people say never, was 1816."""
    write_int96(tmp_path / "a.parquet", [2020, 9999])
    source = open_files(tmp_path, "parquet")

    said = rf"a\.parquet: column {column} has times, .*leave it"
    with pytest.raises(DataError, match=said):
        read_all(source, [column])
    with pytest.raises(DataError, match=said):
        read_sample(source.scan, source.fragments[0], [column], 2)
    assert read_all(source, ["id"])["id"].tolist() == [0, 1]
