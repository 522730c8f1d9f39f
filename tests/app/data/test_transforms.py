"""Every kind of transform gives the rows of a plain loop over them, in any format of batches."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.data.builders_plan import FUNCTIONS, counted, make_plan, write_rows
from trainshed.data.loader.arrow_blocks import from_block, to_block
from trainshed.data.sampler.function import Function
from trainshed.data.sources.apply_functions import augment, transform
from trainshed.data.sources.batch_formats import from_format
from trainshed.data.sources.column_arrays import (
    Array,
    Columns,
    as_objects,
    cut_rows,
    join,
    nbytes,
    num_rows,
    take_rows,
)
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.fragment_reader import read_whole, reading
from trainshed.data.sources.grouping import hashes
from trainshed_api.transforms import BatchFormat

FIELD = "spec.data.datasets.train.transforms[0].use"
FORMATS: tuple[BatchFormat, ...] = ("numpy", "pandas", "pyarrow")
HERE = __name__


def make_function(name: str, kind: str = "batches", **fields: object) -> Function:
    """Return a function of this file or of the sample functions."""
    module = HERE if name in globals() else FUNCTIONS
    options = fields.pop("options", {})
    init = fields.pop("init", {})
    assert isinstance(options, dict)
    assert isinstance(init, dict)
    return Function(
        f"{module}:{name}",
        FIELD,
        kind,  # type: ignore[arg-type]  # a text here
        options=tuple(options.items()),
        init=tuple(init.items()),
        **fields,  # type: ignore[arg-type]  # of a Function
    )


def make_columns(rows: int) -> Columns:
    """Return a table with a column of each kind."""
    ids = np.arange(rows, dtype=np.int64)
    words = np.empty(rows, dtype=object)
    words[:] = [None if row % 3 == 1 else f"word {row}" for row in range(rows)]
    raw = np.empty(rows, dtype=object)
    raw[:] = [bytes([row % 7]) for row in range(rows)]
    return {
        "id": ids,
        "x": np.where(ids % 4 == 0, np.nan, ids / 3),
        "small": ids.astype(np.uint8),
        "half": ids.astype(np.float16),
        "is_odd": ids % 2 == 1,
        "picture": np.arange(rows * 6, dtype=np.uint8).reshape(rows, 2, 3),
        "flags": (np.arange(rows * 4).reshape(rows, 4) % 3 == 0),
        "word": words,
        "raw": raw,
        "day": np.datetime64("2026-01-01") + ids,
        "time": np.datetime64("2026-01-01T00:00:00", "us") + ids,
    }


def as_dict(batch: Columns) -> Columns:
    """Return what came."""
    assert isinstance(batch, dict)
    return batch


def as_frame(batch: object) -> pd.DataFrame:
    """Return what came, which is a DataFrame, in another order of rows and back."""
    assert isinstance(batch, pd.DataFrame)
    return batch.iloc[::-1].sort_index()


def as_arrow(batch: object) -> pa.Table:
    """Return what came, which is a table of Arrow."""
    assert isinstance(batch, pa.Table)
    return batch.slice(0, 1) if batch.num_rows == 1 else batch


SAME: dict[BatchFormat, str] = {"numpy": "as_dict", "pandas": "as_frame", "pyarrow": "as_arrow"}


def assert_same(found: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    """Assert that tables have the same columns: types, shapes, values and what is missing."""
    assert list(found) == list(want)
    for name, array in want.items():
        assert found[name].shape == array.shape, name
        if array.dtype.kind == "M":  # pandas has no days, but seconds
            assert (found[name] == array).all(), name
            continue
        assert found[name].dtype == array.dtype, name
        if array.dtype.kind == "f":
            assert np.array_equal(found[name], array, equal_nan=True), name
        else:
            assert found[name].tolist() == array.tolist(), name


@pytest.mark.parametrize("batch_format", FORMATS)
@settings(max_examples=20)
@given(rows=st.integers(1, 9), size=st.none() | st.integers(1, 5))
def test_rows_are_the_same_in_any_format(
    batch_format: BatchFormat, rows: int, size: int | None
) -> None:
    columns = make_columns(rows)
    function = make_function(SAME[batch_format], batch_format=batch_format, batch_size=size)

    assert_same(transform(columns, [function]), columns)


def nullable(batch: object) -> pd.DataFrame:
    """Return columns with types of pandas' own, and missing values in them."""
    del batch
    missing = pd.DataFrame(
        {
            "count": pd.array([1, None, 3], dtype="Int64"),
            "whole": pd.array([1, 2, 3], dtype="Int32"),
            "text": pd.array(["a", None, "c"], dtype="string"),
            "kind": pd.Categorical(["u", "v", "u"]),
            "is_it": pd.array([True, None, False], dtype="boolean"),
        }
    )
    return missing.iloc[[2, 1, 0]]


def test_missing_numbers_are_nan_and_other_missing_values_are_none() -> None:
    found = transform(make_columns(3), [make_function("nullable", batch_format="pandas")])

    assert found["count"].dtype == np.float64
    assert np.array_equal(found["count"], [3.0, np.nan, 1.0], equal_nan=True)
    assert found["whole"].dtype == np.int32
    assert found["text"].tolist() == ["c", None, "a"]
    assert found["kind"].tolist() == ["u", "v", "u"]
    assert found["is_it"].tolist() == [False, None, True]


@pytest.mark.parametrize("batch_format", FORMATS)
@settings(max_examples=40)
@given(rows=st.integers(0, 30), least=st.integers(-1, 30), size=st.none() | st.integers(1, 7))
def test_a_filter_is_a_mask(
    batch_format: BatchFormat, rows: int, least: int, size: int | None
) -> None:
    columns = make_columns(rows)
    name = "above" if batch_format != "pyarrow" else "above_in_arrow"
    function = make_function(
        name, "filter", options={"least": least}, batch_format=batch_format, batch_size=size
    )

    found = transform(columns, [function])

    assert_same(found, take_rows(columns, np.flatnonzero(columns["id"].astype(np.int64) > least)))


def above_in_arrow(batch: pa.Table, *, least: float) -> pa.Array:
    """Keep the rows whose id is large enough."""
    return pa.compute.greater(batch["id"], least)


def greedy(batch: Columns) -> Array:
    """Write into what is filtered."""
    batch["id"][:] = 0
    return np.ones(len(batch["id"]), dtype=np.bool_)


def a_number(batch: Columns) -> bool:
    """Return one answer for all rows."""
    return bool(batch["id"][0] >= 0)


def not_sure(batch: pd.DataFrame) -> pd.Series:
    """Return an answer that is missing."""
    return pd.Series([None] * len(batch), dtype="boolean")


def small_first(batch: pd.DataFrame) -> pd.Series:
    """Return which rows have an even id, in the order of another column."""
    return batch.sort_values("small", ascending=False)["id"] % 2 == 0


def by_word(batch: pd.DataFrame) -> pd.Series:
    """Return an answer for each word rather than for each row."""
    return batch.set_index("word")["id"] >= 0


# Zeros in the middle and at the end, as pictures and what `tobytes` makes have them.
RAW = (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"ends\0\0", b"\0")


def raw_by_row(row: dict[str, object]) -> dict[str, object]:
    """Return bytes, a text and several of both in a row."""
    held = RAW[int(str(row["id"])) % len(RAW)]
    return {"raw": held, "word": f"{len(held)} bytes", "pair": [held, held]}


def raw_by_list(batch: Columns) -> dict[str, object]:
    """Return lists of the same."""
    rows = [raw_by_row({"id": number}) for number in batch["id"]]
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize(
    "function", [make_function("raw_by_row", "rows"), make_function("raw_by_list")]
)
def test_bytes_and_texts_of_a_function_are_what_it_gave(function: Function) -> None:
    """Numpy's own bytes have no zeros at their end, and Arrow ends them at the first one."""
    made = transform({"id": np.arange(9)}, [function])
    block = to_block(made)

    want = raw_by_list({"id": np.arange(9)})
    for found in (made, from_block(block)):
        assert {array.shape for array in found.values()} == {(9,)}
        assert found["raw"].tolist() == want["raw"]
        assert found["word"].tolist() == want["word"]
        assert [pair.tolist() for pair in found["pair"]] == want["pair"]
    assert isinstance(block, pa.Table)
    assert block.schema.field("pair").type == pa.list_(pa.binary())  # nothing is pickled


def bytes_or_text(row: dict[str, object]) -> dict[str, object]:
    """Return a text of the first row, and bytes of all others."""
    return {"word": b"a" if row["id"] else "a"}


def test_bytes_beside_texts_are_refused() -> None:
    with pytest.raises(DataError, match="column word has bytes beside text"):
        transform({"id": np.arange(2)}, [make_function("bytes_or_text", "rows")])


def test_bytes_of_an_array_are_what_numpy_shows() -> None:
    array = np.array(RAW)

    made = from_format({"raw": array})

    assert made
    assert from_block(to_block(made))["raw"].tolist() == array.tolist()


def test_a_text_costs_what_it_holds_however_long_another_is() -> None:
    long = "word" * 10_000

    made = from_format({"text": [long, *["a"] * 99]})

    assert made
    assert nbytes(made) < 2 * len(long)


def test_a_filter_s_answers_go_to_the_rows_that_its_index_names() -> None:
    function = make_function("small_first", "filter", batch_format="pandas", batch_size=3)

    found = transform(make_columns(8), [function])

    assert found["id"].tolist() == [0, 2, 4, 6]


def fading_by_twos(batch: Columns) -> Columns:
    """Return an array of another length for each row, or one array where there is one row."""
    rows = [np.zeros(int(number) + 1) for number in batch["id"]]
    return {"x": as_objects(rows) if len(rows) > 1 else np.stack(rows)}


def test_rows_may_hold_arrays_of_other_lengths() -> None:
    for function in (
        make_function("fading", "rows"),
        make_function("fading_by_twos", batch_size=2),
    ):
        found = transform(make_columns(5), [function])["x"]

        assert [len(row) for row in found] == [1, 2, 3, 4, 5], function.name


def uneven(batch: Columns) -> Columns:
    """Return columns of another shape for each batch."""
    return {"x": np.zeros((len(batch["id"]), int(batch["id"][0]) + 1))}


def odd_named(row: Columns) -> dict[str, object]:
    """Return a row that has a column more where its id is odd."""
    odd = {"more": 1} if row["id"] % 2 else {}
    return {"id": row["id"], **odd}


def odd_in_words(row: Columns) -> dict[str, object]:
    """Return a row with a text for a number where its id is odd."""
    return {"id": str(row["id"]) if row["id"] % 2 else row["id"]}


def odd_batch_in_words(batch: Columns) -> Columns:
    """Return the same by batches."""
    return {"id": batch["id"].astype(str) if batch["id"][0] % 2 else batch["id"]}


def odd_batch_named(batch: Columns) -> Columns:
    """Return a batch that has another column where its first id is odd."""
    return {"id": batch["id"], **({"more": batch["id"]} if batch["id"][0] % 2 else {})}


def twins(batch: object) -> pd.DataFrame:
    """Return two columns of one name."""
    del batch
    return pd.DataFrame([[1, 2]], columns=["a", "a"])


def large_or_half(row: Mapping[str, object]) -> dict[str, object]:
    """Return an integer that float64 does not hold of the first row, and a half of the others."""
    return {"x": 0.5 if row["id"] else 2**53 + 1}


def large_and_half(row: object) -> dict[str, object]:
    """Return a list of which NumPy makes floats."""
    del row
    return {"x": [2**53 + 1, 0.5]}


def ragged(batch: Columns) -> dict[str, object]:
    """Return lists of several lengths."""
    return {"x": [[0] * number for number in range(num_rows(batch))]}


def signed_and_not(batch: Columns) -> dict[str, object]:
    """Return a list of which NumPy makes floats."""
    return {"x": [2**63 + 5, -1] * (num_rows(batch) // 2)}


def ranges(batch: object) -> pd.DataFrame:
    """Return a column that nothing else has."""
    del batch
    return pd.DataFrame({"span": pd.Series([pd.Period("2026-01", "M")])})


USE = f"{FIELD}: {HERE}"
FAULTS: dict[str, tuple[Function, str]] = {
    "a filter that writes": (
        make_function("greedy", "filter"),
        f"{USE}:greedy raised ValueError: assignment destination is read-only",
    ),
    "a filter with one answer": (
        make_function("a_number", "filter"),
        f"{USE}:a_number returned a bool of bool with the shape (); expected True or False for "
        "each of the 4 rows",
    ),
    "a filter that does not know": (
        make_function("not_sure", "filter", batch_format="pandas"),
        f"{USE}:not_sure returned a Series of object with the shape (4,); expected True or False",
    ),
    "a filter with an index of its own": (
        make_function("by_word", "filter", batch_format="pandas"),
        f"{USE}:by_word returned a Series whose index is not that of the rows; expected each of 0 "
        "to 3 once, or an array in the order of the rows",
    ),
    "batches that do not fit together": (
        make_function("uneven", batch_size=2),
        f"{USE}:uneven returned rows that do not fit together: x float64[1] of one call, x "
        "float64[3] of another",
    ),
    "rows of other columns": (
        make_function("odd_named", "rows"),
        f"{USE}:odd_named returned rows that do not fit together: column more is not in all of",
    ),
    "rows of numbers and of text": (
        make_function("odd_in_words", "rows"),
        f"{USE}:odd_in_words returned rows that do not fit together: column id has numbers beside "
        "text",
    ),
    "rows of numbers that no type holds": (
        make_function("large_or_half", "rows"),
        f"{USE}:large_or_half returned rows that do not fit together: column x of int64 beside "
        f"float64: got {2**53 + 1}; expected an integer that float64 holds exactly",
    ),
    "lists of several lengths": (
        make_function("ragged"),
        f"{USE}:ragged returned column x: its lists differ in length, which an array of numbers "
        "cannot have. Return lists of one length, or a column of arrays",
    ),
    "a list of numbers that no type holds": (
        make_function("signed_and_not"),
        f"{USE}:signed_and_not returned column x: a list with {2**63 + 5} beside other numbers",
    ),
    "a list of a row that no type holds": (
        make_function("large_and_half", "rows"),
        f"{USE}:large_and_half returned column x: a list with {2**53 + 1} beside other numbers",
    ),
    "two columns of a name": (make_function("twins"), f"{USE}:twins returned several columns a"),
    "a type of pandas alone": (
        make_function("ranges"),
        f"{USE}:ranges returned column span of period[M]",
    ),
    "lists of lists in Arrow": (
        make_function("as_arrow", batch_format="pyarrow"),
        "spec.data.datasets.train.transforms[0].batchFormat: got pyarrow; expected numpy or "
        "pandas for column odd (",
    ),
    "groups by a column that is not there": (
        make_function("first_of_each", "groups", by=("user",)),
        'spec.data.datasets.train.transforms[0].by: there is no column "user"; expected one of day',
    ),
    "groups by a picture": (
        make_function("first_of_each", "groups", by=("picture",)),
        "spec.data.datasets.train.transforms[0].by: column picture cannot be compared (its rows "
        "have the shape (2, 3)); expected a column of numbers, texts, bytes or times",
    ),
    "an order of a picture": (
        make_function("first_of_each", "groups", by=("id",), order_by=("picture",)),
        "spec.data.datasets.train.transforms[0].orderBy: column picture cannot be compared",
    ),
    "a function that is gone": (
        make_function("no_more"),
        f"{FIELD}: got {FUNCTIONS}:no_more; expected a name in {FUNCTIONS}",
    ),
    "no table": (
        make_function("no_table"),
        f"{FIELD}: {FUNCTIONS}:no_table returned a int; expected a dict of columns, a pandas "
        "DataFrame or a pyarrow Table",
    ),
}


@pytest.mark.parametrize(("function", "want"), FAULTS.values(), ids=FAULTS)
def test_what_a_function_may_not_do_is_told(function: Function, want: str) -> None:
    columns = make_columns(4)
    if function.name == "as_arrow":
        columns = {"odd": np.asarray([1, "a", 2.5, b"b"], dtype=object)}

    with pytest.raises(DataError) as caught:
        transform(columns, [function])

    assert str(caught.value).startswith(want)


def test_a_class_is_made_with_what_the_spec_says() -> None:
    three = make_function("Scaled", init={"factor": 3.0, "column": "small"})
    four = make_function("Scaled", init={"factor": 4.0, "column": "small"})

    found = transform(make_columns(3), [three, four])

    assert found["small"].tolist() == [0.0, 12.0, 24.0]
    rows = np.arange(3, dtype=np.int64)
    assert augment(make_columns(3), [three], rows, 0, 0)["small"].tolist() == [0.0, 3.0, 6.0]


def test_groups_of_days_that_no_calendar_has_name_the_column() -> None:
    by_day = make_function("first_of_each", "groups", by=("day",))

    with pytest.raises(
        DataError, match=r"by: column day cannot be compared \(days=.*; expected a col"
    ):
        hashes({"day": np.asarray([2**30], "datetime64[D]")}, by_day)


def nothing(number: int) -> None:
    """Return what a row without a key has."""
    del number


VALUES: dict[str, Callable[[int], object]] = {
    "numbers": lambda number: number - 2,
    "texts": lambda number: None if number == 3 else f"user {number}",
    "bytes": lambda number: bytes([number]),
    "truths": lambda number: number % 2 == 0,
    "truths and none": lambda number: None if number == 1 else number % 2 == 0,
    "numbers and none": lambda number: np.nan if number == 1 else float(number),
    "zeros": lambda number: -0.0 if number == 1 else 0.0 if number == 2 else float(number),
    "numbers of any type": lambda number: (
        None if number == 1 else number if number % 2 else float(number)
    ),
    "decimals": lambda number: None if number == 1 else Decimal(f"{number}.{'0' * number}"),
    "days": lambda number: np.datetime64("2026-01-01") + number,
    "nothing": nothing,
}


OBJECTS = ("texts", "bytes", "truths and none", "numbers of any type", "decimals", "nothing")


def make_keys(kind: str, numbers: Sequence[int]) -> Array:
    """Return a column of keys."""
    values = [VALUES[kind](number) for number in numbers]
    if kind in OBJECTS:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    return np.asarray(values)


def loop_over_groups(
    keys: Sequence[object], order: Sequence[int], rows: Sequence[int]
) -> set[tuple[int, ...]]:
    """Return the rows of each group by a loop, sorted by `order`."""
    found: dict[str, list[int]] = {}
    for row, key in zip(rows, keys, strict=True):
        known = key + 0.0 if isinstance(key, float) else key
        found.setdefault(repr(known), []).append(row)
    return {tuple(sorted(group, key=lambda row: order[row])) for group in found.values()}


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=40)
@given(numbers=st.lists(st.integers(0, 5), min_size=1, max_size=16), seed=st.integers(0, 9))
def test_groups_are_those_of_a_loop(kind: str, numbers: list[int], seed: int) -> None:
    rows = len(numbers)
    keys = make_keys(kind, numbers)
    order = np.random.default_rng(seed).integers(0, 3, rows)  # with ties, which stay as they are
    columns: Columns = {"id": np.arange(rows), "user": keys, "order": order}
    function = make_function("listed", "groups", by=("user",), order_by=("order",))

    found = transform(columns, [function])

    seen = [
        tuple(ids[:count]) for ids, count in zip(found["ids"].tolist(), found["count"], strict=True)
    ]
    assert set(seen) == loop_over_groups(keys.tolist(), order.tolist(), range(rows))
    assert sum(map(len, seen)) == rows


@settings(max_examples=60)
@given(
    numbers=st.lists(st.integers(-3, 8), min_size=1, max_size=30),
    parts=st.integers(1, 7),
    cut=st.integers(0, 30),
)
def test_groups_come_in_the_same_order_however_rows_are_spread(
    numbers: list[int], parts: int, cut: int
) -> None:
    columns: Columns = {"id": np.arange(len(numbers)), "user": np.asarray(numbers)}
    function = make_function("crumbled", "groups", by=("user",))
    whole = transform(columns, [function])
    # Where a file lacks some integers they come as floats.
    first = cut_rows(columns, 0, cut)
    second = cut_rows(columns, cut, len(numbers))
    second = {**second, "user": second["user"].astype(np.float64)}

    tables = [table for table in (first, second) if num_rows(table)]
    spread = np.concatenate([hashes(table, function) for table in tables])
    part = (spread >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
    found = [
        transform(take_rows(join(tables), np.flatnonzero(part == number)), [function])
        for number in range(parts)
    ]

    assert [row for each in found for row in each["id"].tolist()] == whole["id"].tolist()


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=40)
@given(cuts=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=5), max_size=5))
def test_rows_of_a_group_are_alike_in_whatever_cut_they_come(
    kind: str, cuts: list[list[int]]
) -> None:
    function = make_function("listed", "groups", by=("user",))
    found: dict[str, set[int]] = {}

    # In a cut of rows without a key the column has no type.
    for keys in [make_keys("nothing", [0, 0]), *(make_keys(kind, numbers) for numbers in cuts)]:
        for key, number in zip(keys.tolist(), hashes({"user": keys}, function), strict=True):
            found.setdefault(as_group(key), set()).add(int(number))

    assert all(len(numbers) == 1 for numbers in found.values())
    assert len(found) == len(set.union(*found.values()))


def as_group(key: object) -> str:
    """Return a text that keys of one group have in common."""
    if key is None or key != key:  # noqa: PLR0124 - NaN
        return "nothing"
    return str(float(key) + 0.0) if isinstance(key, (int, float, Decimal)) else str(key)


NUMBERS: dict[str, Array] = {
    "int8": np.asarray([3], dtype=np.int8),
    "float32": np.asarray([3], dtype=np.float32),
    "objects": np.asarray([3, None], dtype=object),
    "decimals": np.asarray([Decimal("3.00"), Decimal("0.125")], dtype=object),
}


@pytest.mark.parametrize("keys", NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_any_type_are_alike_by_value(keys: Array) -> None:
    function = make_function("listed", "groups", by=("user",))
    want = hashes({"user": np.asarray([3])}, function)

    assert hashes({"user": keys}, function)[0] == want[0]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("odd_batch_named", "column more is not in all of them"),
        ("odd_batch_in_words", "column id has numbers beside text"),
    ],
)
def test_a_function_that_makes_other_columns_of_other_chunks_is_told(
    tmp_path: Path, name: str, want: str
) -> None:
    plan = make_plan(
        write_rows(tmp_path / "rows", ([3],)),
        row_bytes=2**23,  # a row a chunk
        transforms=[{"use": f"{HERE}:{name}"}],
    )
    assert plan.source

    with pytest.raises(DataError, match=rf"train.transforms: rows of .* fit together: {want}"):
        read_whole(reading(plan), plan.source.fragments[0])


def test_nan_where_no_text_is_known_is_joined_with_texts() -> None:
    """As pandas has a column of which a batch has no text."""
    words = np.asarray([np.nan, "a", None], dtype=object)

    found = join([{"a": np.asarray([np.nan, np.nan])}, {"a": words}])["a"].tolist()

    assert found[3:] == ["a", None]
    with pytest.raises(DataError, match="column a has numbers beside text"):
        join([{"a": np.asarray([1.0])}, {"a": words}])


def test_numbers_beside_texts_that_are_objects_are_not_joined() -> None:
    words = make_columns(2)["word"]

    with pytest.raises(DataError, match="column a has numbers beside text"):
        join([{"a": words}, {"a": np.arange(2)}])
    assert join([{"a": np.arange(2)}, {"a": np.full(1, None)}])["a"].tolist() == [0, 1, None]


def test_a_row_that_is_left_out_is_given_to_no_function(tmp_path: Path) -> None:
    plan = make_plan(
        write_rows(tmp_path / "rows", ([4], [4, 4])),
        row_bytes=2**22,  # two rows a chunk
        transforms=[
            {"use": f"{FUNCTIONS}:above", "kind": "filter", "options": {"least": 6}},
            {"use": f"{FUNCTIONS}:row_sum", "kind": "rows"},
        ],
    )
    assert plan.source
    assert plan.block_rows == 2

    tables = [read_whole(reading(plan), fragment) for fragment in plan.source.fragments]

    assert counted(plan).tolist() == [num_rows(table) for table in tables] == [0, 5]
    assert [list(table) for table in tables[1:]] == [["id", "sum"]]


def test_the_plan_knows_by_its_kind_that_a_transform_changes_rows(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "rows", ([4],))
    use = f"{FUNCTIONS}:above"
    kept = make_plan(folder, transforms=[{"use": use, "kind": "filter"}])
    grouped = make_plan(folder, transforms=[{"use": use, "kind": "groups", "by": ["id"]}])

    assert (kept.changes_rows, kept.rows, kept.is_made_whole) == (True, None, False)
    assert (grouped.changes_rows, grouped.rows, grouped.is_made_whole) == (True, None, True)
    assert grouped.cache == "objects"
    assert grouped.reason.startswith("groups are made once, and about ")
