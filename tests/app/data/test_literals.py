"""Constants of `where` are compared as values of the column's type, in rows and statistics."""

import datetime as dt
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.data.builders_formats import FIELD
from tests.app.data.builders_tables import write_delta
from tests.app.data.comparison_signs import SIGNS
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources.dataset_files import open_source, read_fragment
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.filters import columns_to_read, misfits, selected
from trainshed.data.sources.literals import compared_as
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.rows import ReadSpec
from trainshed_api.where import parse_where

NOON = dt.datetime(2024, 1, 1, 12)


def chosen(folder: Path, where: str, form: str = "parquet") -> Source:
    """Return the source of the rows that meet a condition."""
    spec = ReadSpec.model_validate({"format": form, "path": str(folder), "where": where})
    return open_source(Disk(folder), spec, FIELD)


def ids_of(source: Source) -> list[int]:
    scan, wanted = source.scan, columns_to_read(source.scan, ["id"])
    tables = (
        table
        for fragment in source.fragments
        for table in selected(read_fragment(scan, fragment, wanted, 9), scan, fragment, ["id"])
    )
    return [number for table in tables for number in table["id"].tolist()]


@dataclass(frozen=True)
class Case:
    """Two values, each in a file of its own, and a condition that the second alone meets."""

    values: pa.Array
    where: str
    want_files: int = 1


HALF = np.asarray([0.1, 0.2], np.float16)
CASES = {
    "date in a list": Case(
        pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 5)]), 'x in ("2024-01-05", "2025-01-01")'
    ),
    "date of 64 bits": Case(pa.array([0, 86_400_000], pa.date64()), 'x != "1970-01-01"'),
    "date in a dictionary": Case(
        pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 5)]).dictionary_encode(),
        'x > "2024-01-01"',
    ),
    "time by a date": Case(
        pa.array([NOON, NOON.replace(day=2)], pa.timestamp("ms")), 'x >= "2024-01-02"'
    ),
    "nanoseconds": Case(
        pa.array([1, 2], pa.timestamp("ns")), 'x > "1970-01-01T00:00:00.000000001"'
    ),
    "time with a zone": Case(
        pa.array([NOON, NOON.replace(hour=13)], pa.timestamp("us", "Europe/Berlin")),
        'x > "2024-01-01 14:00:00+02:00"',
    ),
    "time with a zone, in UTC": Case(
        pa.array([NOON, NOON.replace(hour=13)], pa.timestamp("us", "Europe/Berlin")),
        'x > "2024-01-01 12:00"',
    ),
    "times beyond those of Python": Case(
        pa.array([0, 2**40], pa.timestamp("s")), 'x > "2024-01-01"', want_files=1
    ),
    "time of day": Case(pa.array([dt.time(9), dt.time(17)]), 'x > "12:30"'),
    "decimal of a fraction": Case(
        pa.array([Decimal("0.50"), Decimal("1.10")], pa.decimal128(38, 20)), "x == 1.1"
    ),
    "decimal as a text": Case(pa.array([Decimal("0.5"), Decimal("1.1")]), 'x in ("1.10", "7")'),
    "decimal beyond the column": Case(pa.array([Decimal("-5"), Decimal("5")]), "x > -1e-30"),
    "float16": Case(pa.array(HALF), "x == 0.2", want_files=2),
    "unsigned beside negative": Case(pa.array([1, 2**63 + 5], pa.uint64()), "x > 1.5 and x > -1"),
    "unsigned in a list": Case(pa.array([1, 2**64 - 1], pa.uint64()), f"x in ({2**64 - 1}, -1)"),
    "boolean": Case(pa.array([False, True]), "x == 1"),
    "boolean in a list": Case(pa.array([False, True]), "x in (True,)"),
    "integer by a boolean": Case(pa.array([0, 1]), "x == True"),
    "integer in a list with fractions": Case(pa.array([0, 1]), "x in (1.0, 0.5)"),
    "bytes": Case(pa.array([b"\xff", b"a"]), 'x == "a"'),
    "text of a view": Case(pa.array(["b", "a"], pa.string_view()), 'x == "a"'),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_constant_has_the_type_of_its_column(tmp_path: Path, case: Case) -> None:
    for number in range(2):
        table = pa.table({"id": [number], "x": case.values[number : number + 1]})
        pq.write_table(table, tmp_path / f"{number}.parquet")

    source = chosen(tmp_path, case.where)

    assert ids_of(source) == [1]
    assert len(source.fragments) == case.want_files


@pytest.mark.parametrize(("stored", "given"), [(" ", "T"), ("T", " ")])
def test_a_time_is_not_compared_with_texts_that_write_times_otherwise(
    stored: str, given: str, tmp_path: Path
) -> None:
    rows = [{"id": day, "x": f"2026-03-1{day}{stored}10:00:00"} for day in range(3)]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    alike = chosen(tmp_path, f"x >= '2026-03-11{stored}10:00:00'", "json")
    assert ids_of(alike) == [1, 2]
    by_day = chosen(tmp_path, "x >= '2026-03-11'", "json")
    assert ids_of(by_day) == [1, 2]
    other = chosen(tmp_path, f"x >= '2026-03-11{given}10:00:00'", "json")
    with pytest.raises(DataError, match=f"a time as the rows have it, such as .*10{stored}10:00"):
        ids_of(other)


@dataclass(frozen=True)
class Family:
    """Values of a column, constants beside them, and how Python and a condition write these."""

    kind: pa.DataType
    values: st.SearchStrategy[Any]
    constants: st.SearchStrategy[Any]
    write: Callable[[Any], str] = repr


DECIMALS = st.decimals(-3, 3, places=1, allow_nan=False)
DATES = st.dates(dt.date(2024, 1, 1), dt.date(2024, 1, 6))
TIMES = st.datetimes(NOON, NOON + dt.timedelta(seconds=3)).map(lambda x: x.replace(microsecond=0))
FAMILIES = {
    "decimals": Family(pa.decimal128(4, 2), DECIMALS, st.integers(-3, 3) | DECIMALS, str),
    "unsigned": Family(
        pa.uint64(), st.integers(2**64 - 4, 2**64 - 1), st.integers(2**64 - 5, 2**64 - 1)
    ),
    "dates": Family(pa.date32(), DATES, DATES, lambda day: repr(str(day))),
    "times": Family(pa.timestamp("ms"), TIMES, TIMES, lambda time: repr(str(time))),
    "integers": Family(
        pa.int8(), st.integers(-3, 3), st.integers(-300, 300) | st.sampled_from([0.5, 1.0, -2.5])
    ),
    "texts": Family(pa.string(), st.text("ab", max_size=2), st.text("ab", max_size=2)),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_statistics_leave_out_no_row_that_python_would_choose(
    family: Family, data: st.DataObject
) -> None:
    values = data.draw(st.lists(family.values, min_size=1, max_size=4))
    constant, sign = data.draw(family.constants), data.draw(st.sampled_from([*SIGNS]))
    table = pa.table({"id": range(len(values)), "x": pa.array(values, family.kind)})

    with tempfile.TemporaryDirectory() as folder:
        for number in range(len(values)):
            pq.write_table(table.slice(number, 1), f"{folder}/{number}.parquet")
        pq.write_table(pa.table({"id": [-1], "x": pa.nulls(1, family.kind)}), f"{folder}/x.parquet")
        ids = ids_of(chosen(Path(folder), f"x {sign} {family.write(constant)} or id < 0"))

    want = [number for number, value in enumerate(values) if SIGNS[sign](value, constant)]
    assert ids == [*want, -1]


PARTITIONS = {
    "dates": (pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 5)]), 'x > "2024-01-02"'),
    "decimals": (pa.array([Decimal("0.50"), Decimal("1.10")], pa.decimal128(10, 2)), "x > 1"),
    "booleans": (pa.array([False, True]), "x == True"),
    "times": (pa.array([NOON, NOON.replace(day=2)], pa.timestamp("us", "UTC")), 'x > "2024-01-02"'),
}


@pytest.mark.parametrize(("values", "where"), PARTITIONS.values(), ids=PARTITIONS)
def test_partitions_of_other_values_are_not_opened(
    tmp_path: Path, values: pa.Array, where: str
) -> None:
    write_delta(tmp_path, pa.table({"id": [0, 1], "x": values}), partitions=["x"])
    source = chosen(tmp_path, where, "delta")
    for fragment in source.fragments:
        if dict(fragment.constants)["x"] == values[0].as_py():
            Path(fragment.path).unlink()

    assert ids_of(source) == [1]


COLUMNS = pa.table(
    {
        "id": pa.array([0, 1, 2], pa.int32()),
        "word": ["a", "abc", None],
        "raw": [b"a", b"abc", None],
        "list": [[1], [1, 2], [3]],
        "pair": [[1, 2], [1, 2], [3, 4]],
        "price": pa.array([1, 2, 3], pa.decimal128(5, 2)),
        "begin": pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 5), None]),
        "end": pa.array([dt.date(2024, 1, 3), dt.date(2024, 1, 3), dt.date(2024, 1, 3)]),
        "half": [0.5, 1.0, None],
    }
)
FUNCTIONS = {
    "len(word) > 2": [1],
    "not len(word) > 2": [0],
    "3 == len(raw)": [1],
    "len(list) == 2 or len(pair) < 2": [1],
    'like(word, "a%")': [0, 1],
    'like(word, "a_c") and id < 5': [1],
    'not match(word, "^.b")': [0],
    "begin < end": [0],
    "id == half * 2 - 1": [0, 1],
    "half > id": [0],
    "id / 2 == 0.5": [1],
    "price * 2 > 4 and price - id == 1": [2],
    "1 < id + 1 < 3": [1],
}


@pytest.mark.parametrize(("where", "want"), FUNCTIONS.items(), ids=FUNCTIONS)
def test_conditions_compute_with_columns(tmp_path: Path, where: str, want: list[int]) -> None:
    pq.write_table(COLUMNS, tmp_path / "a.parquet")

    assert ids_of(chosen(tmp_path, where)) == want


MISFITS = {
    'begin > "2024-13-01"': (
        'where: got "2024-13-01" for column begin of type date32[day]; '
        'expected a date such as "2024-01-31"'
    ),
    "begin > 5": 'got 5 for column begin of type date32[day]; expected a date such as "2024-01-31"',
    'id == "1"': 'got "1" for column id of type int32; expected a number of',
    'half < "x"': 'got "x" for column half of type double; expected a number without quotes',
    'price == "x"': 'got "x" for column price of type decimal128(5, 2); expected a number such as',
    "word == 1": 'got 1 for column word of type string; expected a text in quotes, such as "train"',
    "id == 18446744073709551615": "column id of type int32; expected a number of at most 64 bits",
    "list == 1": "got 1 for column list of type list<element: int64>; expected `is None` or",
    'match(word, "a(")': "got column word of type string; expected columns and constants that can",
    "word < id": "got column word of type string and column id of type int32; expected columns",
    "len(id) > 1": "got column id of type int32; expected columns and constants that can be",
}


@pytest.mark.parametrize(("where", "said"), MISFITS.items(), ids=MISFITS)
def test_what_a_column_cannot_be_compared_with_is_refused_before_rows_are_read(
    tmp_path: Path, where: str, said: str
) -> None:
    pq.write_table(COLUMNS, tmp_path / "a.parquet")

    with pytest.raises(SpecError, match=re.escape(said)):
        chosen(tmp_path, where)


def test_a_zone_is_refused_where_the_column_has_none() -> None:
    schema = pa.schema([("x", pa.timestamp("us"))])

    [(got, expected)] = misfits(parse_where('x > "2024-01-01 12:00+01:00"'), schema)

    assert got == '"2024-01-01 12:00+01:00" for column x of type timestamp[us]'
    assert expected.startswith("a time without a zone, such as")


def test_what_only_rows_show_is_refused_with_their_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [2**63 - 1, 0]}), tmp_path / "a.parquet")

    with pytest.raises(DataError, match=r"read.where: .*a.parquet: expected columns and constants"):
        ids_of(chosen(tmp_path, "id + id > 5"))


COMPARED: dict[str, tuple[pa.Array, pa.DataType]] = {
    "dictionary": (pa.array(["a", "b"]).dictionary_encode(), pa.string()),
    "decimal": (pa.array([Decimal("0.10")], pa.decimal128(38, 20)), pa.decimal256(76, 38)),
    "unsigned": (pa.array([2**64 - 1], pa.uint64()), pa.decimal256(76, 38)),
    "time without a zone": (pa.array([NOON], pa.timestamp("ms")), pa.timestamp("ms", "UTC")),
    "time of a zone": (
        pa.array([NOON], pa.timestamp("us", "Europe/Berlin")),
        pa.timestamp("us", "UTC"),
    ),
    "float16": (pa.array(HALF), pa.float32()),
    "int64": (pa.array([2**53 + 1]), pa.int64()),
}


@pytest.mark.parametrize(("values", "want"), COMPARED.values(), ids=COMPARED)
def test_values_stay_equal_in_the_type_in_which_they_are_compared(
    values: pa.Array, want: pa.DataType
) -> None:
    kind = compared_as(values.type)

    assert kind == want
    utc = pa.timestamp("ms", "UTC")
    same = values.cast(utc) if pa.types.is_timestamp(values.type) else values
    assert values.cast(kind).to_pylist() == same.to_pylist()
