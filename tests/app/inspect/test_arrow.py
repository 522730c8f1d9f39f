"""What is written as parquet is read back as the same arrays."""

import io
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.data.sources.arrow_columns import from_arrow
from trainshed.data.sources.column_arrays import Array, Columns
from trainshed.data.sources.errors import DataError
from trainshed.inspect.to_arrow import schema_of, to_arrow

DTYPES = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "datetime64[ms]", "datetime64[us]", "datetime64[ns]"),
    *("datetime64[D]", "timedelta64[ms]", ">i4", ">f8"),
)
BYTES = st.binary(max_size=5)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def through_a_file(columns: Columns, seen: Columns | None = None) -> Columns:
    """Return columns as they come back; seen: rows by which the types were found."""
    file = io.BytesIO()
    pq.write_table(to_arrow(columns, schema_of([seen or columns], None)), file)
    file.seek(0)
    return from_arrow(pq.read_table(file))


def as_objects(values: list[object]) -> Array:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 3), max_size=3),
    rows=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_arrays_keep_type_shape_and_values(
    dtype: str, shape: list[int], rows: int, seed: int
) -> None:
    numbers = np.random.default_rng(seed).integers(0, 100, (rows, *shape))
    column = numbers.astype(np.int64 if "64[" in dtype else dtype).astype(dtype)

    back = through_a_file({"x": column})["x"]

    assert back.dtype == column.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back, column)


@given(
    values=st.one_of(
        st.lists(st.none() | TEXTS, min_size=1),
        st.lists(st.none() | BYTES, min_size=1),
        st.lists(st.fixed_dictionaries({"a": st.integers(0, 9), "b": TEXTS}), min_size=1),
    )
)
def test_texts_bytes_and_objects_stay(values: list[object]) -> None:
    assert through_a_file({"x": as_objects(values)})["x"].tolist() == values


@given(
    shapes=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1),
    dtype=st.sampled_from(["uint8", "float32", "int64"]),
)
def test_arrays_of_several_shapes_stay(shapes: list[tuple[int, int]], dtype: str) -> None:
    rows: list[object] = [np.full(shape, number, dtype) for number, shape in enumerate(shapes)]

    back = through_a_file({"x": as_objects(rows)})["x"]

    for found, row in zip(back, rows, strict=True):
        assert isinstance(row, np.ndarray)
        assert (found.dtype, found.shape) == (row.dtype, row.shape)
        np.testing.assert_array_equal(found, row)


def test_rows_without_a_value_stay() -> None:
    assert through_a_file({"x": np.empty((3, 0), dtype=np.float32)})["x"].shape == (3, 0)


def test_seconds_become_milliseconds_which_parquet_has() -> None:
    seconds = np.array([0, 60], dtype="datetime64[s]")
    back = through_a_file({"x": seconds})["x"]
    assert back.dtype == np.dtype("datetime64[ms]")
    np.testing.assert_array_equal(back, seconds)


SOURCE = pa.schema([("ids", pa.list_(pa.int64())), ("n", pa.int64())])


def test_lists_that_had_one_length_where_one_looked_may_have_others() -> None:
    seen = {"ids": np.array([[1, 2], [3, 4]])}
    schema = schema_of([seen], SOURCE)
    later = as_objects([np.array([1]), np.array([1, 2, 3])])

    assert to_arrow({"ids": later}, schema)["ids"].to_pylist() == [[1], [1, 2, 3]]
    assert to_arrow(seen, schema)["ids"].to_pylist() == [[1, 2], [3, 4]]


def test_integers_may_be_missing_where_nobody_looked() -> None:
    schema = schema_of([{"n": np.array([1, 2])}, {"n": np.array([np.nan])}], SOURCE)
    table = to_arrow({"n": np.array([5.0, np.nan])}, schema)
    assert table["n"].to_pylist() == [5, None]


def test_integers_of_which_some_are_missing_at_every_place_stay_integers() -> None:
    looked: list[Columns] = [{"n": np.array([1, np.nan])}, {"n": np.array([np.nan])}]
    schema = schema_of(looked, SOURCE, as_read=True)
    assert schema.field("n").type == pa.int64()
    assert to_arrow(looked[0], schema)["n"].to_pylist() == [1, None]
    # What a transform made of them are floats, whatever they look like.
    assert schema_of(looked, SOURCE).field("n").type == pa.float64()


def test_integers_that_floats_have_rounded_are_refused() -> None:
    looked: list[Columns] = [{"n": np.array([1, np.nan])}]
    schema = schema_of(looked, SOURCE, as_read=True)
    with pytest.raises(DataError, match=r"column n: 9007199254740992 beside rows without a value"):
        to_arrow({"n": np.array([2.0**53, np.nan])}, schema)


def test_places_of_several_lengths_are_lists() -> None:
    looked: list[Columns] = [{"x": np.zeros((2, 3))}, {"x": np.zeros((2, 4))}]
    assert schema_of(looked, None).field("x").type == pa.list_(pa.float64())


def test_places_of_several_pictures_are_ragged() -> None:
    looked: list[Columns] = [{"x": np.zeros((2, 3, 3))}, {"x": np.zeros((2, 4, 4))}]
    schema = schema_of(looked, None)
    back = from_arrow(to_arrow(looked[1], schema))["x"]
    assert back.shape == (2, 4, 4)


INTRICATE = pa.table(
    {
        "price": pa.array([None, Decimal("1.10"), Decimal("123.45")], pa.decimal128(9, 2)),
        "object": pa.array(
            [{"a": 1, "b": None}, {"a": 2, "b": "b"}, None],
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
        ),
        "map": pa.array([[], [("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "objects": pa.array([[], [{"a": 1}], None], pa.list_(pa.struct([("a", pa.int8())]))),
        "matrix": pa.array([[[1, 2], [3, 4]], [[1]], []], pa.list_(pa.list_(pa.int16()))),
        "words": pa.array([[], ["a"], ["b", "c"]], pa.list_(pa.string())),
    }
)


@pytest.mark.parametrize("name", INTRICATE.column_names)
def test_what_files_tell_of_objects_holds_for_all_rows(name: str) -> None:
    table = INTRICATE.select([name])
    looked = from_arrow(table.slice(0, 1))

    schema = schema_of([looked], table.schema)

    assert schema.field(name).type == table.schema.field(name).type
    for start in range(3):
        row = from_arrow(table.slice(start, 1))
        assert to_arrow(row, schema).to_pylist() == table.slice(start, 1).to_pylist()


def test_what_a_transform_made_of_them_is_something_else() -> None:
    source = pa.schema([("matrix", pa.list_(pa.list_(pa.int64())))])
    schema = schema_of([{"matrix": np.full((2, 3, 3), 0.5)}], source)
    assert schema.field("matrix").type == pa.fixed_shape_tensor(pa.float64(), (3, 3))


REFUSED: dict[str, tuple[Columns, Columns, str]] = {
    "another shape": (
        {"x": np.zeros((2, 3))},
        {"x": np.zeros((2, 4))},
        "column x: extension<arrow.fixed_shape_tensor[value_type=double, shape=[4]]> among rows",
    ),
    "a wider type": (
        {"x": np.zeros(2, np.float32)},
        {"x": np.zeros(2)},
        "column x: double among rows with float",
    ),
    "texts among numbers": (
        {"x": np.zeros(2, np.int64)},
        {"x": np.array(["a"])},
        "column x: string among rows with int64",
    ),
    "another column": (
        {"x": np.zeros(2)},
        {"y": np.zeros(2)},
        "rows with the columns y among others with x: all rows need the same",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_do_not_fit_are_said(case: str) -> None:
    seen, columns, want = REFUSED[case]
    with pytest.raises(DataError) as refused:
        to_arrow(columns, schema_of([seen], None))
    assert str(refused.value).startswith(want)


def test_what_no_file_holds_is_said() -> None:
    with pytest.raises(DataError, match=r"column x: complex128 is no type of parquet"):
        schema_of([{"x": np.zeros(2, complex)}], None)
