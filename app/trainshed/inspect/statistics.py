"""Statistics of each column, in one pass with few rows in memory."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, cast

import numpy as np
from pydantic import JsonValue

from trainshed.inspect.generated_rows import GeneratedRows
from trainshed.inspect.moments import Moments, merged, moments_of
from trainshed.inspect.reading import check_columns, check_known, of_parts
from trainshed.inspect.values import as_json, as_key, say_type
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sources.column_arrays import Array, Columns
    from trainshed.inspect.inputs import RowInput

# Maximum number of different values, and of their characters in all.
MOST_VALUES = 1000
MOST_CHARACTERS = 2**20
# Number of most frequent values to show.
MOST_FREQUENT = 5
# Tables may differ in the shapes of arrays.
MOST_TYPES = 3
# Types that are counted as they are; other values are counted by their JSON.
Value = str | bytes | bool
_COUNTED = (str, bytes, bool)


class Frequent(Record):
    """A value and its number of rows."""

    value: JsonValue
    rows: int


class Summary(Record):
    """The statistics of a column.

    Args:
        name: of it.
        type: of its rows.
        rows: number of rows.
        missing: rows without a value; for arrays, rows that lack at least one.
        min: the smallest number or the first time; None if there is none.
        max: the largest number or the last time.
        mean: of all numbers.
        std: sample standard deviation (n - 1).
        sum: of all numbers.
        values: number of different values of other types.
        has_more: whether there are more values than are counted.
        frequent: the most frequent values.
    """

    name: str
    type: str
    rows: int
    missing: int
    min: JsonValue = None
    max: JsonValue = None
    mean: JsonValue = None
    std: JsonValue = None
    sum: JsonValue = None
    values: int | None = None
    has_more: bool = False
    frequent: tuple[Frequent, ...] = ()


def summarize(
    given: RowInput | GeneratedRows,
    columns: Sequence[str],
    processes: int,
    told: Callable[[Fragment], None],
) -> tuple[Summary, ...]:
    """Return the statistics of each column, after the transforms; empty without rows.

    Args:
        given: the rows.
        columns: to include; empty for all.
        processes: number of reading processes.
        told: called with each fragment that was read.

    Raises:
        SpecError: if there is no such column.
        DataError: if rows cannot be read, transformed or made.
        InfrastructureError: if the storage does not return them.
    """
    check_columns(given, "--column", columns)
    given = given if isinstance(given, GeneratedRows) else given.unrounded()
    found: dict[str, ColumnStatistics] = {}
    call = functools.partial(tallies, columns)
    for part in of_parts(given, columns, call, processes, told):
        for name, tally in part.items():
            found.setdefault(name, ColumnStatistics()).merge(tally)
    return tuple(tally.summary(name) for name, tally in found.items())


def tallies(columns: Sequence[str], tables: Iterable[Columns]) -> dict[str, ColumnStatistics]:
    """Return the statistics of each column of some tables."""
    found: dict[str, ColumnStatistics] = {}
    for table in tables:
        check_known("--column", columns, list(table))
        for name in columns or table:
            found.setdefault(name, ColumnStatistics()).add(table[name])
    return found


class ColumnStatistics:
    """Running statistics of a column; independent of how the rows are split."""

    def __init__(self) -> None:
        self._types: dict[str, None] = {}
        self._rows = self._missing = 0
        self._numbers = Moments()
        self._times: tuple[np.generic, np.generic] | None = None
        # None once there are too many different values.
        self._values: Counter[Value] | None = Counter()

    def add(self, array: Array) -> None:
        """Add rows of the column."""
        self._add_types([say_type(array)])
        self._rows += len(array)
        if array.dtype.kind in "iuf" or (array.dtype.kind == "b" and array.ndim > 1):
            self._add_numbers(array)
        elif array.dtype.kind in "mM":
            lacking = np.isnat(array)
            self._missing += _num_lacking(lacking)
            if len(there := array[~lacking]):
                self._add_ends(there.min(), there.max())
        elif array.ndim == 1:
            self._add_objects(array.tolist())
        else:
            self._count([_as_value(row) for row in array])

    def merge(self, other: ColumnStatistics) -> None:
        """Merge the statistics of other rows of the column."""
        self._add_types(other._types)
        self._rows += other._rows
        self._missing += other._missing
        self._numbers = merged(self._numbers, other._numbers)
        if other._times is not None:
            self._add_ends(*other._times)
        if self._values is not None:
            self._values = None if other._values is None else self._values + other._values
            self._check_few()

    def summary(self, name: str) -> Summary:
        """Return the statistics of the column with a name."""
        known = list(self._types) or ["nothing"]
        moments, values = self._numbers, self._values
        ends: tuple[object, object] = (None, None)
        if moments.count:
            ends = (moments.least, moments.most)
        elif self._times is not None:
            ends = self._times
        return Summary(
            name=name,
            type=" or ".join([*known[:MOST_TYPES], *(["others"] if known[MOST_TYPES:] else [])]),
            rows=self._rows,
            missing=self._missing,
            min=as_key(ends[0]),
            max=as_key(ends[1]),
            mean=as_key(moments.mean if moments.count else None),
            std=as_key(moments.std),
            sum=as_key(moments.total if moments.count else None),
            values=len(values) if values else None,
            has_more=values is None,
            frequent=_frequent(values or Counter()),
        )

    def _add_types(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            if kind != "nothing" and len(self._types) <= MOST_TYPES:
                self._types[kind] = None

    def _add_numbers(self, array: Array) -> None:
        if isinstance(array, np.ma.MaskedArray):
            self._missing += _num_lacking(np.ma.getmaskarray(array))
            array = array.compressed()
        elif array.dtype.kind == "f":
            lacking = np.isnan(array)
            self._missing += _num_lacking(lacking)
            array = array[~lacking] if lacking.any() else array
        self._numbers = merged(self._numbers, moments_of(array))

    def _add_ends(self, least: np.generic, most: np.generic) -> None:
        if self._times is not None:
            least, most = np.minimum(self._times[0], least), np.maximum(self._times[1], most)
        self._times = (least, most)

    def _add_objects(self, objects: Sequence[object]) -> None:
        if all(type(each) in _COUNTED for each in objects):  # the usual case
            self._count(cast("Sequence[Value]", objects))
            return
        counted: list[Value] = []
        found: list[float] = []
        for each in objects:
            if isinstance(each, _COUNTED):
                counted.append(each)
            elif isinstance(each, np.ndarray) and each.dtype.kind in "iufb":
                self._add_numbers(each[None])  # rows differ in length
            elif isinstance(each, np.ndarray):
                counted.append(_as_value(each))
            elif each is None or each != each:  # noqa: PLR0124 - NaN is not itself
                self._missing += 1
            elif isinstance(each, (int, float, Decimal, np.integer, np.floating)):
                found.append(_as_float(each))
            else:
                counted.append(_as_value(each))
        self._numbers = merged(self._numbers, moments_of(np.asarray(found, dtype=np.float64)))
        self._count(counted)

    def _count(self, values: Iterable[Value]) -> None:
        if self._values is not None:
            self._values.update(values)
            self._check_few()

    def _check_few(self) -> None:
        values = self._values
        if values is None:
            return
        size = sum(1 if isinstance(value, bool) else len(value) for value in values)
        if len(values) > MOST_VALUES or size > MOST_CHARACTERS:
            self._values = None


def _num_lacking(lacking: Array) -> int:
    """Return the number of rows that lack at least one value; lacking: (rows, ...) mask."""
    return int(lacking.any(axis=tuple(range(1, lacking.ndim))).sum())


def _as_float(number: float | Decimal | np.integer | np.floating) -> float:
    try:
        return float(number)
    except OverflowError:  # of an integer, where a decimal becomes infinite
        return math.inf if number > 0 else -math.inf


def _as_value(value: object) -> Value:
    """Return the key by which a value is counted."""
    if isinstance(value, bytes):
        return value
    said = as_json(value)
    return said if isinstance(said, (str, bool)) else json.dumps(said, sort_keys=True)


def _frequent(values: Counter[Value]) -> tuple[Frequent, ...]:
    def place(each: tuple[Value, int]) -> tuple[int, str]:
        return -each[1], str(each[0])

    some = sorted(values.items(), key=place)[:MOST_FREQUENT]
    return tuple(Frequent(value=as_key(value), rows=rows) for value, rows in some)
