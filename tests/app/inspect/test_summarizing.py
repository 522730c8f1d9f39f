"""Columns are summed up in one pass: as numpy does it with all rows, however they are cut."""

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.data.builders_formats import write_csv, write_pictures
from tests.app.inspect.builders import ignore, select
from trainshed.data.sources.column_arrays import Array
from trainshed.inspect import moments, statistics
from trainshed.inspect.statistics import ColumnStatistics, Summary, summarize
from trainshed_api.errors import SpecError

CUTS = st.lists(st.integers(0, 60), max_size=12)
WHOLE = 2**63


def summed_up(array: Array, cuts: Sequence[int] = ()) -> Summary:
    """Return the summary of rows that are cut at some places, of which others tell half."""
    found = ColumnStatistics()
    for place, part in enumerate(np.split(array, sorted(cuts))):
        other = ColumnStatistics() if place % 2 else found
        if len(part):
            other.add(part)
        if place % 2:
            found.merge(other)
    return found.summary("x")


def as_objects(values: Sequence[object]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@given(st.lists(st.floats(-1e9, 1e9) | st.just(math.nan), min_size=1, max_size=60), CUTS)
def test_numbers_are_those_of_numpy_for_any_cut(values: list[float], cuts: list[int]) -> None:
    array = np.asarray(values)
    there = array[~np.isnan(array)]

    found = summed_up(array, cuts)

    assert (found.rows, found.missing) == (len(array), len(array) - len(there))
    if not len(there):
        assert (found.min, found.max, found.mean, found.std, found.sum) == (None,) * 5
        return
    little = 1e-12 * float(np.abs(there).max()) * len(there)
    assert (found.min, found.max) == (there.min(), there.max())
    assert found.mean == pytest.approx(there.mean(), rel=1e-12, abs=little)
    assert found.sum == pytest.approx(there.sum(), rel=1e-12, abs=little)
    if len(there) == 1:
        assert found.std is None
    else:
        assert found.std == pytest.approx(there.std(ddof=1), rel=1e-9, abs=little)


@given(st.lists(st.integers(-WHOLE, WHOLE - 1), min_size=1, max_size=60), CUTS)
def test_sums_and_ends_of_integers_are_exact_for_any_cut(
    values: list[int], cuts: list[int]
) -> None:
    found = summed_up(np.asarray(values, dtype=np.int64), cuts)

    assert (found.min, found.max, found.sum) == (min(values), max(values), sum(values))
    assert found.mean == pytest.approx(sum(values) / len(values), rel=1e-12, abs=1e4)


@given(st.lists(st.sampled_from(["a", "b", "", None, b"\xff", True]), min_size=1), CUTS)
def test_values_are_counted_for_any_cut(values: list[str | bytes | None], cuts: list[int]) -> None:
    want = Counter(value for value in values if value is not None)

    found = summed_up(as_objects(values), cuts)

    assert (found.rows, found.missing) == (len(values), values.count(None))
    assert found.values == (len(want) or None)
    counts = {each.value: each.rows for each in found.frequent}
    assert counts == {"\\xff" if value == b"\xff" else value: rows for value, rows in want.items()}
    assert [each.rows for each in found.frequent] == sorted(counts.values(), reverse=True)


def test_little_is_lost_where_numbers_are_far_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """By sums of squares nothing but noise was left of this spread."""
    monkeypatch.setattr(moments, "PIECE", 64)
    array = 1e9 + np.random.default_rng(0).normal(0, 1, 10_000)

    found = summed_up(array, range(0, 10_000, 97))

    assert found.std == pytest.approx(array.std(ddof=1), rel=1e-9)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "uint64", "float16", "float32", "?"])
def test_of_arrays_all_values_count(dtype: str) -> None:
    array = np.arange(24).reshape(4, 2, 3).astype(dtype)

    found = summed_up(array, [1])

    floats = array.astype(np.float64)
    assert found.type == f"{array.dtype}[2, 3]"
    assert (found.min, found.max, found.sum) == (floats.min(), floats.max(), floats.sum())
    assert found.mean == pytest.approx(floats.mean())
    assert found.std == pytest.approx(floats.std(ddof=1))


def test_of_arrays_rows_that_lack_a_value_are_missing() -> None:
    array = np.asarray([[1.0, math.nan], [math.nan, math.nan], [2.0, 3.0]])
    found = summed_up(array)
    assert (found.rows, found.missing, found.sum) == (3, 2, 6.0)


def test_lists_of_several_lengths_are_numbers() -> None:
    lists = [np.arange(3), np.empty(0), None, np.arange(2, dtype=np.float32), np.ones((2, 2))]
    found = summed_up(as_objects(lists), [2])
    assert (found.rows, found.missing, found.sum, found.max) == (5, 1, 8.0, 2)
    assert found.values is None


def test_of_many_types_a_few_are_told() -> None:
    found = ColumnStatistics()
    found.add(as_objects([None]))
    for length in range(1, 9):
        found.add(np.zeros((2, length)))
    assert found.summary("x").type == "float64[1] or float64[2] or float64[3] or others"


def test_numbers_that_are_infinite_are_told() -> None:
    found = summed_up(np.asarray([1.0, math.inf, 2.0]), [1, 2])
    assert (found.min, found.max, found.mean, found.std) == (1.0, "inf", "inf", None)
    assert summed_up(np.asarray([-math.inf, math.inf]), [1]).mean is None


def test_times_have_ends_and_no_mean() -> None:
    days = np.asarray(["2026-01-02", "NaT", "2025-12-31"], dtype="datetime64[D]")
    found = summed_up(days, [1])
    assert (found.min, found.max, found.missing) == ("2025-12-31", "2026-01-02", 1)
    assert (found.mean, found.values) == (None, None)


def test_objects_of_many_kinds_are_counted_by_what_they_are() -> None:
    objects = [Decimal("1.5"), 10**400, {"b": 1, "a": [2]}, {"a": [2], "b": 1}, math.nan]
    found = summed_up(as_objects([*objects, datetime.time(12), np.bool_(True)]))
    assert (found.rows, found.missing, found.min, found.max) == (7, 1, 1.5, "inf")
    assert [(each.value, each.rows) for each in found.frequent] == [
        ('{"a": [2], "b": 1}', 2),
        ("12:00:00", 1),
        (True, 1),
    ]


@pytest.mark.parametrize(("values", "text"), [(1001, "{}"), (2, "{}" + "x" * 2**20)])
@pytest.mark.parametrize("cuts", [[], [1], range(0, 1000, 7)], ids=["whole", "one", "many"])
def test_of_more_values_than_are_told_apart_none_is_held(
    values: int, text: str, cuts: Sequence[int]
) -> None:
    texts = as_objects([text.format(number) for number in range(values)])
    found = summed_up(texts, [cut for cut in cuts if cut < values])
    assert (found.values, found.has_more, found.frequent) == (None, True, ())
    assert found.rows == values


def test_files_are_summed_up_after_transforms(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 600)
    write_csv(tmp_path / "b.csv", 600, 401)

    found = summarize(select(tmp_path, "csv", "keep_even"), ["id", "x"], 1, ignore)

    assert [each.name for each in found] == ["id", "x"]
    assert (found[0].rows, found[0].min, found[0].max) == (501, 0, 1000)
    assert found[0].sum == sum(range(0, 1001, 2))
    assert found[0].std == pytest.approx(np.arange(0, 1001, 2).std(ddof=1))


@pytest.mark.parametrize("row_group_size", [1, 2, 5])
def test_integers_that_floats_would_round_are_summed_up_exactly(
    row_group_size: int, tmp_path: Path
) -> None:
    ids = [2**60 + 1, None, 7, None, 2**60 + 3]
    table = pa.table({"user": pa.array(ids, pa.int64())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=row_group_size)

    (found,) = summarize(select(tmp_path, "parquet"), (), 1, ignore)

    assert (found.rows, found.missing) == (5, 2)
    assert (found.min, found.max, found.sum) == (7, 2**60 + 3, 2**61 + 11)


def test_labels_and_pictures_are_summed_up(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"cat": 2, "ant": 1})
    image, label = summarize(select(tmp_path, "images"), [], 1, ignore)
    assert (image.name, image.type, image.rows) == ("image", "bytes", 3)
    assert (label.min, label.max, label.sum) == (0, 1, 2)


def test_no_rows_are_nothing(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 5)
    assert summarize(select(tmp_path, "csv", "keep_none"), [], 1, ignore) == ()


def test_a_column_that_is_not_there_is_said(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 5)
    for chosen in (select(tmp_path, "csv"), select(tmp_path, "csv", "keep_even")):
        with pytest.raises(SpecError) as refused:
            summarize(chosen, ["id", "label"], 1, ignore)
        assert str(refused.value) == '--column: got "label"; expected one of id, x, name'


def test_bounds_are_as_the_documents_say() -> None:
    assert (statistics.MOST_VALUES, statistics.MOST_FREQUENT) == (1000, 5)
