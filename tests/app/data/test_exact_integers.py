"""Integers that float64 would round stay as they are, or are refused, where some are missing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.app.data.builders_formats import dtypes_of, open_files, read_all
from tests.app.data.builders_tables import write_delta, write_lance
from trainshed.data.loader.arrow_blocks import from_block, to_block
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources.arrow_columns import from_arrow
from trainshed.data.sources.batch_formats import from_format
from trainshed.data.sources.column_arrays import as_objects, join
from trainshed.data.sources.dataset_files import open_source, read_fragment, read_sample
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.filters import columns_to_read, selected
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.rows import ReadSpec

BASE = 2**60
IDS = [BASE + 1, BASE + 2, BASE + 3, None, BASE + 1]


def table_of(ids: list[int | None], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"user": pa.array(ids, kind or pa.int64()), "v": list(range(len(ids)))})


def read_where(folder: Path, where: str, form: str = "parquet", **read: JsonValue) -> Source:
    spec = ReadSpec.model_validate({"format": form, "path": str(folder), "where": where, **read})
    return open_source(Disk(folder), spec, "spec.data.datasets.train.read")


def rows_where(source: Source, columns: tuple[str, ...] = ()) -> dict[str, list[object]]:
    wanted = columns_to_read(source.scan, columns)
    tables = [
        table
        for fragment in source.fragments
        for table in selected(
            read_fragment(source.scan, fragment, wanted, 2), source.scan, fragment, columns
        )
    ]
    return {name: column.tolist() for name, column in join(tables).items()}


WRITTEN: dict[str, Callable[[Path], None]] = {
    "parquet": lambda at: pq.write_table(table_of(IDS), at / "a.parquet", row_group_size=2),
    "delta": lambda at: write_delta(at, table_of(IDS)),
    "lance": lambda at: write_lance(at, table_of(IDS)),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_a_row_without_a_value_beside_large_ones_is_refused_unless_it_is_left_out(
    tmp_path: Path, form: str
) -> None:
    WRITTEN[form](tmp_path)

    with pytest.raises(DataError, match=rf"{tmp_path}.*: column user: got a row without a value"):
        read_all(open_files(tmp_path, form))

    source = read_where(tmp_path, "user is not None", form)
    assert rows_where(source)["user"] == [BASE + 1, BASE + 2, BASE + 3, BASE + 1]
    for fragment in source.fragments:
        assert read_sample(source.scan, fragment, (), 2)["user"].dtype == np.int64
    assert dtypes_of(open_files(tmp_path, form, columns=["v"]), ["v"]) == {"v": "int64"}


CONDITIONS: dict[str, list[int]] = {
    f"user == {BASE + 1}": [0, 4],
    f"user in ({BASE + 2}, {BASE + 4})": [1],
    f"not (user > {BASE + 1}) and v < 4": [0],
    f"user < {BASE + 2} or user is None": [0, 3, 4],
}


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("where", CONDITIONS)
def test_a_condition_compares_integers_exactly(
    tmp_path: Path, where: str, *, statistics: bool
) -> None:
    pq.write_table(table_of(IDS), tmp_path / "a.parquet", write_statistics=statistics)

    assert rows_where(read_where(tmp_path, where), ("v",)) == {"v": CONDITIONS[where]}


def test_a_condition_with_a_large_integer_is_asked_of_rows_with_small_ones(tmp_path: Path) -> None:
    pq.write_table(table_of([1, None, 3, BASE + 1]), tmp_path / "a.parquet", row_group_size=2)

    assert rows_where(read_where(tmp_path, f"user == {BASE + 1}")) == {
        "user": [BASE + 1],
        "v": [3],
    }


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
@pytest.mark.parametrize("ids", [[1, None, BASE + 1, 4], [None, 1, None, BASE + 1]])
def test_a_large_integer_is_refused_where_no_footer_told_of_it(
    tmp_path: Path, ids: list[int | None], kind: pa.DataType
) -> None:
    """Also in a table without a missing value, as others have one."""
    table = table_of(ids, kind)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2, write_statistics=False)

    with pytest.raises(DataError, match=rf"a\.parquet: column user: got {BASE + 1}; expected"):
        read_all(open_files(tmp_path, "parquet"), chunk_rows=2)


TEXTS: dict[str, tuple[str, dict[str, JsonValue]]] = {
    "csv": ("id,x\n9007199254740993,1\n,2\n", {}),
    "jsonl": ('{"id": 9007199254740993}\n{"id": null}\n', {}),
    "json": ('[{"id": 9007199254740993}, {"id": null}]', {"lines": False}),
}


@pytest.mark.parametrize("ending", TEXTS)
def test_a_large_integer_in_a_text_is_refused_where_one_is_missing(
    tmp_path: Path, ending: str
) -> None:
    text, options = TEXTS[ending]
    (tmp_path / f"a.{ending}").write_text(text)

    want = rf"a\.{ending}: column id: got 9007199254740993; .*options\.types: {{id: string}}"
    with pytest.raises(DataError, match=want):
        read_all(open_files(tmp_path, "csv" if ending == "csv" else "json", options))


def test_a_large_integer_of_csv_may_be_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TEXTS["csv"][0])

    rows = read_all(open_files(tmp_path, "csv", {"types": {"id": "string"}}))

    assert rows["id"].tolist() == ["9007199254740993", ""]


LACKING = {
    "csv": ("id,x\n" + "1,1\n,2\n" * 10, "%s,3\n"),
    "jsonl": ('{"id": 1}\n{"id": null}\n' * 10, '{"id": %s}\n'),
}


@pytest.mark.parametrize("ending", LACKING)
def test_a_fraction_behind_integers_of_which_some_are_missing_is_a_float(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.line_files.HEAD_BYTES", 40)
    rows, form = LACKING[ending], "csv" if ending == "csv" else "json"
    (tmp_path / f"a.{ending}").write_text(rows[0] + rows[1] % "2.5")
    source = open_files(tmp_path, form)

    assert dtypes_of(source)["id"] == "float64"
    assert read_all(source)["id"][-1] == 2.5

    (tmp_path / f"a.{ending}").write_text(rows[0] + rows[1] % "2.5" + rows[1] % (2**53 + 1))
    source = open_files(tmp_path, form)
    want = r"column id: got 9007199254740993; .*float64 for the column in options\.types"
    with pytest.raises(DataError, match=want):
        read_all(source)
    assert read_all(open_files(tmp_path, form, {"types": {"id": "float64"}}))["id"][-2] == 2.5


LARGE = 2**53 + 1
ROUNDED: dict[str, tuple[str, str, dict[str, JsonValue], int]] = {
    "csv: beside a fraction": ("csv", f"x\n{LARGE}\n1.5\n", {}, LARGE),
    "csv: of 64 bits without a sign": ("csv", f"x\n1\n{2**63 + 1}\n", {}, 2**63 + 1),
    "csv: as float32": ("csv", f"x\n{2**24 + 1}\n", {"types": {"x": "float32"}}, 2**24 + 1),
    "lines: beside a fraction": ("jsonl", f'{{"x": 0.5}}\n{{"x": {LARGE}}}\n', {}, LARGE),
    "lines: in a list": ("jsonl", f'{{"x": [{LARGE}, 0.5]}}\n', {}, LARGE),
    "lines: in an object": (
        "jsonl",
        f'{{"x": {{"a": {LARGE}}}}}\n{{"x": {{"a": 0.5}}}}\n',
        {},
        LARGE,
    ),
    "lines: of 64 bits without a sign": ("jsonl", f'{{"x": {2**63 + 1}}}\n', {}, 2**63 + 1),
    "lines: of 65 bits": ("jsonl", f'{{"x": {2**64 + 1}}}\n', {}, 2**64 + 1),
    "lines: as float32": (
        "jsonl",
        f'{{"x": {2**24 + 1}}}\n',
        {"types": {"x": "float32"}},
        2**24 + 1,
    ),
    "list: beside a fraction": ("json", f'[{{"x": {LARGE}}}, {{"x": 0.5}}]', {}, LARGE),
    "list: in an object": ("json", f'[{{"x": {{"a": [{LARGE}, 0.5]}}}}]', {}, LARGE),
    "list: of 64 bits without a sign": ("json", f'[{{"x": {2**63 + 1}}}]', {}, 2**63 + 1),
    "list: as float32": ("json", f'[{{"x": {2**24 + 1}}}]', {"types": {"x": "float32"}}, 2**24 + 1),
}


@pytest.mark.parametrize("case", ROUNDED)
def test_an_integer_that_the_floats_of_its_column_round_is_refused(
    tmp_path: Path, case: str
) -> None:
    ending, text, options, value = ROUNDED[case]
    (tmp_path / f"a.{ending}").write_text(text)
    form, lines = "csv" if ending == "csv" else "json", {"lines": False} if ending == "json" else {}

    want = rf"a\.{ending}: column x(\.a)?: got {value}; expected .* holds.*options\.types"
    with pytest.raises(DataError, match=want):
        read_all(open_files(tmp_path, form, {**options, **lines}))


INFINITE: dict[str, tuple[str, dict[str, JsonValue], str]] = {
    "csv": ("x\n1.5\n-1e400\n", {}, r"column x: got -1e400; expected .* float64 holds"),
    "csv: float64": (
        "x\n1.5\n1e400\n",
        {"types": {"x": "float64"}},
        "column x: got 1e400; expected",
    ),
    "csv: a decimal comma": (
        'x\n"1,5e400"\n',
        {"decimal": ","},
        r"column x: got 1\.5e400; expected",
    ),
    "json": ('[{"x": [1e400]}]', {"lines": False}, "got 1e400; expected .* float64 holds"),
}


@pytest.mark.parametrize("case", INFINITE)
def test_a_number_that_would_be_infinite_is_refused(tmp_path: Path, case: str) -> None:
    text, options, want = INFINITE[case]
    ending = case.partition(":")[0]
    (tmp_path / f"a.{ending}").write_text(text)

    with pytest.raises((DataError, SpecError), match=rf"a\.{ending}.*{want}"):
        read_all(open_files(tmp_path, "csv" if ending == "csv" else "json", options))


def test_words_for_infinity_are_read_from_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\ninf\n-inf\n1e308\n")

    assert read_all(open_files(tmp_path, "csv"))["x"].tolist() == [np.inf, -np.inf, 1e308]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json"])
def test_integers_that_floats_hold_are_read_beside_fractions(tmp_path: Path, ending: str) -> None:
    values = [2**60, 0.1, -(2**63), 1e300, 2**53]
    objects = [f'{{"x": {value}}}' for value in values]
    texts = {
        "csv": "\n".join(["x", *map(str, values), ""]),
        "jsonl": "\n".join(objects),
        "json": f"[{','.join(objects)}]",
    }
    (tmp_path / f"a.{ending}").write_text(texts[ending])
    form, lines = "csv" if ending == "csv" else "json", {"lines": False} if ending == "json" else {}

    assert read_all(open_files(tmp_path, form, lines))["x"].tolist() == values


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json"])
def test_float64_among_the_options_rounds_and_float32_rounds_fractions_alone(
    tmp_path: Path, ending: str
) -> None:
    for value, kind, want in (
        (str(LARGE), "float64", float(LARGE)),
        ("0.1", "float32", float(np.float32(0.1))),
        ("1e300", "float32", None),
    ):
        objects = {"csv": f"x\n{value}\n", "jsonl": f'{{"x": {value}}}\n'}
        (tmp_path / f"a.{ending}").write_text(objects.get(ending, f'[{{"x": {value}}}]'))
        form: str = "csv" if ending == "csv" else "json"
        options: dict[str, JsonValue] = {"types": {"x": kind}}
        if ending == "json":
            options["lines"] = False
        source = open_files(tmp_path, form, options)
        if want is not None:
            assert read_all(source)["x"].tolist() == [want]
            continue
        with pytest.raises(
            DataError, match=r"column x: got 1e\+300; expected a number that float32"
        ):
            read_all(source)


@pytest.mark.parametrize(
    ("value", "kind", "want"),
    [("1.5", "int64", "got 1.5; expected an integer"), ("true", "float64", "got true; expected a")],
)
def test_a_list_of_objects_has_no_value_of_another_kind_among_numbers(
    tmp_path: Path, value: str, kind: str, want: str
) -> None:
    (tmp_path / "a.json").write_text(f'[{{"x": 1}}, {{"x": {value}}}]')
    options: dict[str, JsonValue] = {"lines": False, "types": {"x": kind}}

    with pytest.raises(DataError, match=rf"a\.json: row 1: column x: {want}"):
        read_all(open_files(tmp_path, "json", options))


NESTED: dict[str, tuple[list[object], pa.DataType]] = {
    "a field": ([{"a": LARGE}, {"a": None}], pa.struct([("a", pa.int64())])),
    "a missing struct": ([{"a": LARGE}, None], pa.struct([("a", pa.int64())])),
    "a list of structs": (
        [[{"a": LARGE}], [{"a": None}]],
        pa.list_(pa.struct([("a", pa.int64())])),
    ),
    "a map": ([[("a", LARGE), ("b", None)]], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("case", NESTED)
def test_integers_of_structs_stay_exact_beside_missing_ones(tmp_path: Path, case: str) -> None:
    rows, kind = NESTED[case]
    pq.write_table(pa.table({"x": pa.array(rows, kind)}), tmp_path / "a.parquet")

    columns = read_all(open_files(tmp_path, "parquet"))

    for found in (columns, from_block(to_block(columns))):
        assert [list(each) if isinstance(rows[0], list) else each for each in found["x"]] == rows


def test_a_block_keeps_large_integers_beside_missing_ones() -> None:
    values = as_objects([LARGE, None, 1])

    assert from_block(to_block({"x": values}))["x"].tolist() == [LARGE, None, 1]


INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**53) - 2, 2**53 + 2)


@given(values=st.lists(st.none() | INTEGERS, min_size=1, max_size=8))
def test_no_integer_becomes_another_one(values: list[int | None]) -> None:
    column = from_arrow(pa.table({"x": pa.array(values, pa.int64())}))["x"]

    found = [None if value != value else value for value in column.tolist()]  # noqa: PLR0124
    assert [value if value is None else int(value) for value in found] == values


def test_lists_with_large_integers_and_missing_ones_are_refused(tmp_path: Path) -> None:
    of_any, of_two = pa.list_(pa.int64()), pa.list_(pa.int64(), 2)
    for other, kind in (([1, 2], of_any), ([1], of_any), (None, of_two)):
        lists = pa.array([[BASE + 1, None], other], kind)
        pq.write_table(pa.table({"x": lists}), tmp_path / "a.parquet")

        with pytest.raises(DataError, match=r"a\.parquet.*9007199254740992"):
            read_all(open_files(tmp_path, "parquet"))


def test_a_transform_may_not_return_large_integers_beside_missing_ones() -> None:
    with pytest.raises(ValueError, match="column user has integers beyond 9007199254740992"):
        from_format(table_of(IDS))
