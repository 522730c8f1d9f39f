"""A condition leaves files of a table unread by their partitions, and changes nothing else."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from pyiceberg.typedef import Record

from tests.app.data.builders_formats import FIELD
from tests.app.data.builders_tables import (
    catalog_in,
    delete_in_iceberg,
    open_catalog,
    write_delta,
    write_iceberg,
)
from tests.app.data.comparison_signs import SIGNS
from trainshed.data.sampler.dataset_plan import DatasetPlan, plan_dataset
from trainshed.data.sampler.sizes import CacheMemory, Measured
from trainshed.data.sources.column_arrays import join
from trainshed.data.sources.dataset_files import open_source
from trainshed.data.sources.formats.iceberg_files import where_of
from trainshed.data.sources.fragment_reader import read_rows, reading
from trainshed.storage.disk import Disk
from trainshed_api.data import DatasetSpec
from trainshed_api.where import Among, Both, Compared, Condition, Missing, Not, parse_where

ROWS = 60
Row = dict[str, object]
WORDS = ("one", "two", None)
YEARS = (2024, 2025, None)


def partitioned_rows() -> pa.Table:
    """Return rows of nine partitions: word and year may be missing, and so may flag, in each."""
    numbers = range(ROWS)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "word": [WORDS[number % 3] for number in numbers],
            "year": pa.array([YEARS[number // 3 % 3] for number in numbers], pa.int32()),
            "half": [None if number % 7 == 0 else number / 2 for number in numbers],
        }
    )


def write_delta_parts(folder: Path) -> dict[str, JsonValue]:
    write_delta(folder / "table", partitioned_rows(), partitions=["word", "year"])
    return {"format": "delta", "path": str(folder / "table")}


def write_iceberg_parts(folder: Path) -> dict[str, JsonValue]:
    """Write a file that has no partition, then some that have, one of which has deletes."""
    rows = partitioned_rows()
    write_iceberg(folder, rows.slice(0, 9))
    write_iceberg(folder, rows.slice(9), partitions=["word", "year"])
    table = open_catalog(catalog_in(folder)).load_table("shop.rows")
    last = max(table.scan().plan_files(), key=lambda task: task.file.file_path)
    delete_in_iceberg(table, last.file.file_path, [0], last.file.partition)
    options: JsonValue = {"catalog": dict(catalog_in(folder))}
    return {"format": "iceberg", "path": "shop.rows", "options": options}


WRITERS: Mapping[str, Callable[[Path], dict[str, JsonValue]]] = MappingProxyType(
    {"delta": write_delta_parts, "iceberg": write_iceberg_parts}
)


@pytest.fixture(scope="module", params=WRITERS)
def read(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, JsonValue]:
    return WRITERS[request.param](tmp_path_factory.mktemp(request.param))


def make_plan(read: dict[str, JsonValue], **chosen: JsonValue) -> DatasetPlan:
    spec = DatasetSpec.model_validate({"read": {**read, **chosen}})
    source = open_source(Disk(Path(str(read["path"]))), spec.read, FIELD)
    memory, sample = CacheMemory(2**30, 2**30), Measured(20.0, keeps_rows=True)
    return plan_dataset("train", spec, source, sample, memory, 1)


def rows_by_fragment(plan: DatasetPlan) -> list[list[tuple[int, Row]]]:
    """Return the id and the values of each row, by fragment."""
    assert plan.source
    how, found = reading(plan), []
    for fragment, first in zip(plan.source.fragments, plan.first_ids, strict=True):
        tables = list(read_rows(how, fragment, int(first)))
        columns = join([columns for columns, _ in tables]) if tables else {}
        ids = [number for _, some in tables for number in some.tolist()]
        values = zip(*(map(as_value, column.tolist()) for column in columns.values()), strict=True)
        rows = [dict(zip(columns, each, strict=True)) for each in values]
        found.append(list(zip(ids, rows, strict=True)))
    return found


def as_value(value: object) -> object:
    return None if isinstance(value, float) and np.isnan(value) else value


def holds(condition: Condition, row: Row) -> bool | None:
    """Return whether a row meets a condition, as SQL has it: None where nobody knows."""
    if isinstance(condition, Both):
        each = [holds(part, row) for part in condition.parts]
        if (not condition.all) in each:
            return not condition.all
        return None if None in each else condition.all
    if isinstance(condition, Not):
        found = holds(condition.part, row)
        return None if found is None else not found
    assert isinstance(condition, Compared | Among | Missing)
    value = row[condition.column]
    if isinstance(condition, Missing):
        return value is None
    if value is None:
        return None
    return (
        value in condition.values
        if isinstance(condition, Among)
        else SIGNS[condition.sign](value, condition.value)
    )


LEAVES = st.one_of(
    st.builds(
        "{} {} {!r}".format,
        st.just("word"),
        st.sampled_from(["==", "!=", "<", ">="]),
        st.sampled_from(["one", "two", "three"]),
    ),
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["year", "id"]),
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
        st.sampled_from(["2024", "2025", "2024.5", "30"]),
    ),
    st.builds("half {} {}".format, st.sampled_from(["<", ">="]), st.sampled_from(["7.5", "20"])),
    st.builds("{} is None".format, st.sampled_from(["word", "year", "half"])),
    st.builds("{} is not None".format, st.sampled_from(["word", "year", "half"])),
    st.sampled_from(["word in ('one', 'three')", "year not in (2025, 2026)"]),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(where=CONDITIONS)
def test_rows_their_order_and_their_ids_are_those_of_reading_all(
    read: dict[str, JsonValue], where: str
) -> None:
    whole, plan = make_plan(read), make_plan(read, where=where)
    condition = parse_where(where)

    found = rows_by_fragment(plan)

    assert whole.source
    assert plan.source
    assert plan.source.fragments == whole.source.fragments
    assert plan.source.fingerprint == whole.source.fingerprint
    wanted = [
        [row for _, row in rows if holds(condition, row) is True]
        for rows in rows_by_fragment(whole)
    ]
    assert [[row for _, row in rows] for rows in found] == wanted
    firsts = plan.first_ids.tolist()
    assert [[number for number, _ in rows] for rows in found] == [
        list(range(first, first + len(rows))) for first, rows in zip(firsts, wanted, strict=True)
    ]


@pytest.mark.parametrize("keep", ["held", "rest"])
def test_the_rows_of_a_part_are_the_same_under_any_condition(
    read: dict[str, JsonValue], keep: str
) -> None:
    held: JsonValue = {"share": 0.4, "keep": keep}
    part = [row for rows in rows_by_fragment(make_plan(read, holdout=held)) for _, row in rows]

    plan = make_plan(read, holdout=held, where="word == 'one' or year == 2025")

    found = [row for rows in rows_by_fragment(plan) for _, row in rows]
    assert found == [row for row in part if row["word"] == "one" or row["year"] == 2025]
    assert found


UNREAD = {
    "one value": "word == 'one'",
    "what a partition says beside what it does not": "word == 'one' and id >= 0",
    "values that are missing": "not (word != 'one' or word is None)",
}


@pytest.mark.parametrize("where", UNREAD.values(), ids=UNREAD)
def test_files_of_other_partitions_are_not_opened(tmp_path: Path, where: str) -> None:
    read = write_delta_parts(tmp_path)
    plan = make_plan(read, where=where)
    for file in (tmp_path / "table").glob("word=*/**/*.parquet"):
        if "word=one" not in str(file):
            file.unlink()

    found = [row["id"] for rows in rows_by_fragment(plan) for _, row in rows]

    assert sorted(map(str, found)) == sorted(str(number) for number in range(0, ROWS, 3))


def test_files_of_other_partitions_of_iceberg_are_not_opened(tmp_path: Path) -> None:
    read = write_iceberg_parts(tmp_path)
    plan = make_plan(read, where="word == 'two' and year == 2024")
    tasks = open_catalog(catalog_in(tmp_path)).load_table("shop.rows").scan().plan_files()
    mine = (Record(), Record("two", 2024))
    others = [task for task in tasks if task.file.partition not in mine]
    before = rows_by_fragment(plan)
    for task in others:
        Path(where_of(task.file.file_path)).unlink()

    assert len(others) == 8
    assert rows_by_fragment(plan) == before
    assert any(before)
