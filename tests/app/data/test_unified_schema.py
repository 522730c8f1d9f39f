"""Files whose types differ are one dataset, read with types that hold the values of each."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app.data.builders_formats import FIELD, dtypes_of, open_files, read_all
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources.arrow_columns import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    RAY_TENSORS,
)
from trainshed.data.sources.column_arrays import Columns
from trainshed.data.sources.dataset_files import open_source, read_fragment, read_sample
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.filters import columns_to_read, selected
from trainshed.data.sources.formats import shared_types
from trainshed.data.sources.unified_schema import conformed
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.rows import ReadSpec


def write_parquet(folder: Path, *tables: pa.Table | Mapping[str, object]) -> None:
    for number, table in enumerate(tables):
        whole = table if isinstance(table, pa.Table) else pa.table(dict(table))
        pq.write_table(whole, folder / f"{number}.parquet", row_group_size=2)


def plain(value: object) -> object:
    """Return a value as Python has it, with None for each that is missing."""
    if isinstance(value, (np.ndarray, list)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    found = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(found, float) and np.isnan(found) else found


def values_of(columns: Columns) -> dict[str, list[object]]:
    return {name: [plain(each) for each in array] for name, array in columns.items()}


def where_rows(folder: Path, where: str, columns: Sequence[str] = ()) -> Source:
    read: JsonValue = {"format": "parquet", "path": str(folder), "where": where}
    spec = ReadSpec.model_validate(read).model_copy(update={"columns": tuple(columns)})
    return open_source(Disk(folder), spec, FIELD)


class Case(NamedTuple):
    one: pa.Array
    other: pa.Array
    want: list[object]
    want_dtype: str = "object"


STRUCT, SWAPPED = [{"a": 1, "b": "x"}], [{"b": "y", "a": 2}]
CASES = {
    "nothing and integers": Case(pa.nulls(1), pa.array([2]), [None, 2.0], "float64"),
    "nothing and booleans": Case(pa.nulls(1), pa.array([True]), [None, 1.0], "float64"),
    "int32 and int64": Case(pa.array([1], pa.int32()), pa.array([2**60]), [1, 2**60], "int64"),
    "integers and floats": Case(pa.array([1]), pa.array([2.5]), [1.0, 2.5], "float64"),
    "int32 and float32": Case(
        pa.array([2**30 + 1], pa.int32()),
        pa.array([0.5], pa.float32()),
        [2.0**30 + 1, 0.5],
        "float64",
    ),
    "int64 and a short decimal": Case(
        pa.array([-(2**63)]),
        pa.array([Decimal(5)], pa.decimal64(5, 0)),
        [Decimal(-(2**63)), Decimal(5)],
    ),
    "uint64 and a decimal with a fraction": Case(
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([Decimal("0.5")], pa.decimal32(5, 1)),
        [Decimal(2**64 - 1), Decimal("0.5")],
    ),
    "dictionaries and texts": Case(
        pa.array(["r"]).dictionary_encode(), pa.array(["b"]), ["r", "b"]
    ),
    "times of two zones": Case(
        pa.array([1], pa.timestamp("us", "UTC")),
        pa.array([2], pa.timestamp("us", "Europe/Berlin")),
        ["1970-01-01T00:00:00.000001", "1970-01-01T00:00:00.000002"],
        "datetime64[us]",
    ),
    "microseconds and nanoseconds": Case(
        pa.array([1], pa.timestamp("us")),
        pa.array([1], pa.timestamp("ns")),
        ["1970-01-01T00:00:00.000001000", "1970-01-01T00:00:00.000000001"],
        "datetime64[ns]",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("turned", [False, True])
def test_parquet_files_are_read_with_the_type_that_holds_both(
    case: Case, turned: bool, tmp_path: Path
) -> None:
    step = -1 if turned else 1
    write_parquet(tmp_path, *({"v": case.one}, {"v": case.other})[::step])

    source = open_files(tmp_path, "parquet")

    [values] = values_of(read_all(source)).values()
    assert values == case.want[::step]
    assert dtypes_of(source) == {"v": case.want_dtype}
    for fragment in source.fragments:
        assert str(read_sample(source.scan, fragment, (), 1)["v"].dtype) == case.want_dtype


def test_a_column_that_a_file_lacks_has_no_values_there(tmp_path: Path) -> None:
    write_parquet(tmp_path, {"a": [1, 2], "n": [1, 2], "s": ["x", "y"]}, {"a": [3], "late": [True]})

    source = open_files(tmp_path, "parquet")

    assert values_of(read_all(source)) == {
        "a": [1, 2, 3],
        "n": [1.0, 2.0, None],
        "s": ["x", "y", None],
        "late": [None, None, 1.0],
    }
    assert dtypes_of(source) == {
        "a": "int64",
        "n": "float64",
        "s": "object",
        "late": "float64",
    }
    only = open_files(tmp_path, "parquet", columns=("late", "a"))
    assert values_of(read_all(only, ("late", "a"))) == {"late": [None, None, 1.0], "a": [1, 2, 3]}


def test_files_without_rows_have_no_say(tmp_path: Path) -> None:
    write_parquet(
        tmp_path, {"v": pa.array([], pa.string()), "w": pa.array([], pa.int8())}, {"v": [1]}
    )

    assert dtypes_of(open_files(tmp_path, "parquet")) == {"v": "int64"}


def test_files_of_one_schema_are_described_as_before(tmp_path: Path) -> None:
    """Rows cached on disk are found by the description of how files are read."""
    write_parquet(tmp_path, {"a": [1], "b": [2]}, {"b": [3], "a": [4]})

    assert open_files(tmp_path, "parquet").scan.schema is None


def test_columns_without_a_common_type_name_both_files_and_both_types(tmp_path: Path) -> None:
    write_parquet(tmp_path, {"a": [1], "v": [1]}, {"a": [2], "v": [1.5]}, {"a": [3], "v": ["x"]})

    with pytest.raises(SpecError) as caught:
        open_files(tmp_path, "parquet")

    assert str(caught.value) == (
        f"{FIELD}.path: got column v of string in {tmp_path}/2.parquet; expected a type that goes "
        f"with int64 in {tmp_path}/0.parquet. Leave the column out by read.columns, or write it "
        "with one type in all files"
    )
    assert open_files(tmp_path, "parquet", columns=("a",)).rows == 3
    with pytest.raises(SpecError, match="column v of string"):
        where_rows(tmp_path, "v > 1", columns=("a",))


def test_types_that_only_metadata_of_arrow_tells_are_compared(tmp_path: Path) -> None:
    """Parquet stores both as int64."""
    write_parquet(tmp_path, {"v": pa.array([1], pa.duration("s"))}, {"v": [1]})

    with pytest.raises(SpecError, match=r"column v of int64 .* goes with duration\[s\]"):
        open_files(tmp_path, "parquet")


def test_tensors_have_the_shape_of_their_file_where_another_column_widens(tmp_path: Path) -> None:
    def table(shape: str, column: pa.Array) -> pa.Table:
        metadata = {EXTENSION_NAME: RAY_TENSORS[0], EXTENSION_METADATA: shape}
        field = pa.field("x", pa.list_(pa.int64()), metadata=metadata)
        schema = pa.schema([field, pa.field("v", column.type)])
        return pa.table([pa.array([[1, 2, 3, 4, 5, 6]]), column], schema=schema)

    narrow = pa.array([1], pa.int32())
    write_parquet(tmp_path, table("[2, 3]", narrow), table("[3, 2]", pa.array([LARGE])))

    found = read_all(open_files(tmp_path, "parquet"))

    assert values_of(found) == {
        "x": [[[1, 2, 3], [4, 5, 6]], [[1, 2], [3, 4], [5, 6]]],
        "v": [1, LARGE],
    }


def test_an_integer_that_floats_would_round_is_refused_with_its_file(tmp_path: Path) -> None:
    write_parquet(tmp_path, {"v": [0.5]}, {"v": [2**53 + 1]})
    source = open_files(tmp_path, "parquet")

    with pytest.raises(DataError) as caught:
        read_all(source)

    assert str(caught.value).startswith(
        f"{tmp_path}/1.parquet: column v of int64: got Integer value 9007199254740993"
    )


LARGE = 2**40
WHERE: dict[str, list[object]] = {
    "v == 3": [3],
    f"v >= {LARGE}": [LARGE],
    "v < 3": [1, 2],
    "v is None or v == 3": [3],
    "s == 'late'": [LARGE],
    "s is None": [1, 2, 3],
}


@pytest.mark.parametrize("where", WHERE)
def test_conditions_and_statistics_of_narrower_files_agree(where: str, tmp_path: Path) -> None:
    narrow = {"v": pa.array([1, 2, 3], pa.int32())}
    write_parquet(tmp_path, narrow, {"v": [LARGE], "s": ["late"]})

    assert chosen(where_rows(tmp_path, where)) == WHERE[where]


def test_row_groups_of_a_narrower_file_are_left_out_by_their_statistics(tmp_path: Path) -> None:
    write_parquet(tmp_path, {"v": pa.array([1, 2, 3], pa.int32())}, {"v": [LARGE]})

    assert len(where_rows(tmp_path, f"v == {LARGE}").fragments) == 1


def write_prices(
    folder: Path, prices: list[object], floats: list[object], kind: pa.DataType
) -> None:
    write_parquet(folder, {"v": pa.array(prices, kind)}, {"v": pa.array(floats)})


def test_a_decimal_beside_floats_is_read_if_they_keep_its_digits(tmp_path: Path) -> None:
    kind = pa.decimal128(20, 2)
    write_prices(tmp_path, [Decimal("1234.10"), None], [0.5], kind)
    read = values_of(read_all(open_files(tmp_path, "parquet")))
    assert read["v"] == [1234.1, None, 0.5]

    write_prices(tmp_path, [Decimal("123456789012345678.91")], [0.5], kind)
    with pytest.raises(DataError, match=r"0\.parquet.*: column v of .*decimal with more digits"):
        read_all(open_files(tmp_path, "parquet"))


def test_decimals_of_several_types_keep_their_values(tmp_path: Path) -> None:
    prices = [Decimal("-0.0000001"), Decimal("1234.5"), Decimal("99999999.99")]
    kinds = pa.decimal128(20, 7), pa.decimal128(8, 1), pa.decimal128(10, 2)
    files = [{"v": pa.array([price], kind)} for price, kind in zip(prices, kinds, strict=True)]
    write_parquet(tmp_path, *files)

    assert values_of(read_all(open_files(tmp_path, "parquet")))["v"] == prices


def test_a_decimal_of_more_digits_than_the_common_type_has_is_refused() -> None:
    """Arrow's own conversion returned another number."""
    common = pa.schema([("v", pa.decimal32(9, 0))])
    table = pa.table({"v": pa.array([99999, 999999999999], pa.decimal64(12, 0))})

    assert conformed(table[:1], common, "a.parquet")["v"].to_pylist() == [Decimal(99999)]
    with pytest.raises(DataError, match=r"a\.parquet: column v of decimal64\(12, 0\).*'9{12}'"):
        conformed(table, common, "a.parquet")


@pytest.mark.parametrize(
    ("kind", "price"), [((38, 18), "0.1"), ((38, 18), "1234.10"), ((22, 12), "123456.1")]
)
def test_zeros_after_the_digits_of_a_decimal_do_not_count(
    kind: tuple[int, int], price: str, tmp_path: Path
) -> None:
    write_prices(tmp_path, [Decimal(price)], [0.5], pa.decimal128(*kind))

    read = values_of(read_all(open_files(tmp_path, "parquet")))

    assert read["v"] == [float(price), 0.5]


def nested(make: Callable[[pa.DataType], pa.DataType], value: object) -> tuple[pa.Array, pa.Array]:
    """Return nested decimals, and nested floats."""
    return pa.array([value], make(pa.decimal128(38, 18))), pa.array([None], make(pa.float64()))


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (pa.list_, lambda number: [number, None]),
        (pa.large_list, lambda number: [number]),
        (lambda kind: pa.list_(kind, 2), lambda number: [number, number]),
        (lambda kind: pa.map_(pa.string(), kind), lambda number: [("a", number)]),
        (lambda kind: pa.struct([("p", pa.list_(kind))]), lambda number: {"p": [number]}),
    ],
)
def test_decimals_inside_of_other_types_become_the_nearest_floats(
    make: Callable[[pa.DataType], pa.DataType], value: Callable[[object], object], tmp_path: Path
) -> None:
    decimals, floats = nested(make, value(Decimal("1234.10")))
    write_parquet(tmp_path, {"v": decimals}, {"v": floats})
    read = values_of(read_all(open_files(tmp_path, "parquet")))
    assert read["v"] == [value(1234.1), None]

    decimals, floats = nested(make, value(Decimal("0.123456789012345678")))
    write_parquet(tmp_path, {"v": decimals}, {"v": floats})
    with pytest.raises(DataError, match=r"0\.parquet.*: column v of .*decimal with more digits"):
        read_all(open_files(tmp_path, "parquet"))


def test_statistics_of_float32_are_compared_with_constants_of_float64(tmp_path: Path) -> None:
    """Widened, the nearest float32 is more than 0.1, and its row group was left out."""
    write_parquet(tmp_path, {"v": pa.array([0.1], pa.float32())}, {"v": [0.05]})

    assert chosen(where_rows(tmp_path, "v > 0.1")) == [float(np.float32(0.1))]


def chosen(source: Source) -> list[object]:
    """Return the values of the rows that a condition chooses."""
    found: list[object] = []
    for fragment in source.fragments:
        tables = read_fragment(source.scan, fragment, columns_to_read(source.scan, ("v",)), 2)
        for table in selected(tables, source.scan, fragment, ("v",)):
            found += table["v"].tolist()
    return found


class Lines(NamedTuple):
    form: str
    files: Sequence[str]
    want: Mapping[str, list[object]]
    options: Mapping[str, JsonValue] = MappingProxyType({})


LINES = {
    "booleans that one csv lacks": Lines(
        "csv", ["v,w\n,1\n", "v,w\ntrue,1\n"], {"v": [None, 1.0], "w": [1, 1]}
    ),
    "dates and texts of csv": Lines(
        "csv", ["v\n2024-01-01\n", "v\nlate\n"], {"v": ["2024-01-01", "late"]}
    ),
    "dates and times of csv": Lines(
        "csv",
        ["v\n2024-01-01\n", "v\n2024-01-01 10:00:00\n"],
        {"v": ["2024-01-01T00:00:00", "2024-01-01T10:00:00"]},
    ),
    "a type for a column that one csv lacks": Lines(
        "csv",
        ["a,b\n1,2\n", "a\n3\n"],
        {"a": [1, 3], "b": [2.0, None]},
        {"types": {"b": "float64"}},
    ),
    "fields that one json lacks": Lines(
        "json",
        ['{"s": {"a": 1}}\n', '{"s": {"b": [2], "a": 0.5}}\n'],
        {"s": [{"a": 1.0, "b": None}, {"a": 0.5, "b": [2]}]},
    ),
    "a key that one list lacks": Lines(
        "json",
        ['[{"a": 1, "b": 2}]', '[{"a": 2}]'],
        {"a": [1, 2], "b": [2.0, None]},
        {"lines": False},
    ),
}


@pytest.mark.parametrize("case", LINES.values(), ids=LINES)
@pytest.mark.parametrize("turned", [False, True])
def test_lines_give_the_same_rows_however_files_divide_them(
    case: Lines, turned: bool, tmp_path: Path
) -> None:
    step = -1 if turned else 1
    write_lines(tmp_path, case.form, case.files[::step])

    source = open_files(tmp_path, case.form, case.options)

    assert values_of(read_all(source)) == {
        name: values[::step] for name, values in case.want.items()
    }
    for name, values in case.want.items():
        only = open_files(tmp_path, case.form, case.options, columns=(name,))
        assert values_of(read_all(only, (name,))) == {name: values[::step]}


def write_lines(folder: Path, form: str, files: Sequence[str]) -> None:
    for number, text in enumerate(files):
        (folder / f"{number:03}.{form}").write_text(text)


def test_every_one_of_many_files_has_a_say(tmp_path: Path) -> None:
    """Eight of them were looked at, and the task that read another one ended the run."""
    write_lines(tmp_path, "csv", ["v\n1\n"] * 17 + ["v\n0.5\n"] + ["v\n1\n"] * 17)

    assert dtypes_of(open_files(tmp_path, "csv")) == {"v": "float64"}


def test_a_bad_row_of_a_file_that_is_looked_at_in_passing_is_told_when_it_is_read(
    tmp_path: Path,
) -> None:
    write_lines(tmp_path, "csv", ["v,w\n1,2\n", "v,w\n1\n", *["v,w\n1,2\n"] * 30])
    source = open_files(tmp_path, "csv")

    with pytest.raises(DataError, match=r"001\.csv: byte 4: .*Expected 2 columns, got 1"):
        read_all(source)


def test_integers_of_the_training_run_have_no_missing_values(tmp_path: Path) -> None:
    write_lines(tmp_path, "csv", ["a,b\n1,2\n", "a\n3\n"])
    source = open_files(tmp_path, "csv", {"types": {"b": "int64"}})

    with pytest.raises(DataError, match="no value in column b of type int64"):
        read_all(source)


def test_of_very_many_files_the_same_ones_are_looked_at_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_types, "MOST_LOOKED_AT", 10)
    write_lines(tmp_path, "csv", [f"v,c{number}\n1,2\n" for number in range(100)])

    first, second = (open_files(tmp_path, "csv").schema for _ in range(2))

    assert first == second
    assert first is not None
    assert 10 < len(first.names) <= 19


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_integer_beside_fractions_of_another_file_is_not_rounded(
    form: str, tmp_path: Path
) -> None:
    large = 2**53 + 1
    texts = {
        "csv": ["v\n0.5\n", f"v\n{large}\n"],
        "json": ['{"v": 0.5}\n', f'{{"v": {large}}}\n'],
    }
    write_lines(tmp_path, form, texts[form])

    said = (
        rf"001\..*: column v: got {large}; expected .* set float64 for the column in options.types"
    )
    with pytest.raises(DataError, match=said):
        read_all(open_files(tmp_path, form))
    declared = open_files(tmp_path, form, {"types": {"v": "float64"}})
    assert values_of(read_all(declared)) == {"v": [0.5, float(large)]}


def test_two_columns_of_one_name_are_refused_unless_they_are_left_out(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["id", "v", "v"])
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [4], "other": [5]}), tmp_path / "b.parquet")

    with pytest.raises(SpecError, match=r"got 2 columns named v in .*a\.parquet; expected columns"):
        open_files(tmp_path, "parquet")
    assert read_all(open_files(tmp_path, "parquet", columns=["id"]), ["id"])["id"].tolist() == [
        1,
        4,
    ]
