"""Filters rows of files by a condition, or by the side of a split."""

from __future__ import annotations

import functools
import operator
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sampler.permutation import Indices
from trainshed.data.sampler.randomness import RowRandom, digest, mix
from trainshed.data.sampler.strata import NUMBER_BITS
from trainshed.data.sources.arrow_columns import from_arrow
from trainshed.data.sources.column_arrays import (
    MOST_EXACT,
    Columns,
    as_floats,
    exactly,
    num_rows,
    take_rows,
)
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.stratifying import kinds_of
from trainshed_api.where import Among, Both, Compared, Missing, columns_of, simple_parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from trainshed.data.sampler.fragments import Fragment, Holdout, Scan
    from trainshed_api.where import Condition, Value

# Like row groups, numbers have types; the constants of a condition need not.
_NUMBERS = (bool, int, float)
_PLACE = "__place__"
# Bits of a float in [0, 1); the remaining bits of a number break ties.
_DRAWN_BITS = 53
_TIE_BITS = NUMBER_BITS - _DRAWN_BITS
_UNKNOWN = pa.scalar(None, pa.bool_())
# A table, and the numbers of its rows in their fragment, shape (rows,).
Numbered = tuple[Columns, Indices]


def columns_to_read(scan: Scan, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to read for the selection and for `columns`; empty for all."""
    columns = _wanted(scan, columns)
    if not columns:
        return columns
    return (*columns, *(name for name in scan.selection.asked if name not in columns))


def selected(
    tables: Iterable[Columns], scan: Scan, fragment: Fragment, columns: Sequence[str]
) -> Iterator[Columns]:
    """Yield the selected rows of the tables of a fragment, from its first row on.

    Args:
        tables: its rows.
        scan: with the selection.
        fragment: being read.
        columns: to return; empty for all.

    Raises:
        DataError: if a condition does not apply to a column.
    """
    for found in numbered(tables, scan, fragment, columns):
        assert not isinstance(found, BadRecord)
        yield found[0]


def numbered(
    found: Iterable[Columns | BadRecord], scan: Scan, fragment: Fragment, columns: Sequence[str]
) -> Iterator[Numbered | BadRecord]:
    """Yield the same with the numbers of the rows, and the side's bad records between them.

    A fragment whose statistics exclude any matching row is not read. It stays in the list: the
    order and the ids of rows depend on its number.

    Rows are numbered by position in the files, bad ones included, so that a split does not depend
    on other rows. A split by value cannot assign a bad record, so both sides get it: otherwise
    nobody would report it.

    Args:
        found: its rows, and its bad records between them.
        scan: with the selection.
        fragment: being read.
        columns: to return; empty for all.

    Raises:
        DataError: if a condition does not apply to a column.
    """
    where, holdout = scan.selection.where, scan.selection.holdout
    columns, place = _wanted(scan, columns), 0
    if where is not None and fragment.constants and not _may_meet_constants(where, scan, fragment):
        return
    for each in found:
        rows = each.rows if isinstance(each, BadRecord) else num_rows(each)
        numbers = np.arange(place, place + rows, dtype=np.int64)
        kept = np.ones(rows, dtype=np.bool_)
        if holdout is not None and not holdout.stratify:
            drawn = RowRandom(holdout.seed, 0, _numbers(scan, fragment, place, rows)).random()
            kept &= (drawn < holdout.share) == holdout.held
        elif holdout is not None and not isinstance(each, BadRecord):  # which has no value
            kept &= _of_stratum(holdout, each, scan, fragment, place)
        place += rows
        if isinstance(each, BadRecord):  # whether it satisfies a condition is unknown
            if kept.any():
                yield replace(each, rows=int(kept.sum()))
            continue
        if where is not None:
            kept &= _meeting(each, where, fragment)
        wanted = {name: each[name] for name in columns} if columns else each
        if not kept.all():
            wanted, numbers = take_rows(wanted, np.flatnonzero(kept)), numbers[kept]
        if not scan.masks:
            wanted = exactly(wanted, fragment.path, scan.floats, scan.integers)
        yield wanted, numbers


def may_meet(condition: Condition, group: pq.RowGroupMetaData, names: Sequence[str]) -> bool:
    """Return whether a row group may have a matching row, from its column statistics."""
    if isinstance(condition, Both):
        each = (may_meet(part, group, names) for part in condition.parts)
        return all(each) if condition.all else any(each)
    if isinstance(condition, Compared | Among):
        ends = _ends(condition.column, group, names)
        values = (condition.value,) if isinstance(condition, Compared) else condition.values
        if ends and group.column(names.index(condition.column)).physical_type == "FLOAT":
            values = tuple(map(_as_float32, values))
        sign = condition.sign if isinstance(condition, Compared) else "=="
        return ends is None or any(_may_be(ends, sign, value) for value in values)
    return True


def _may_meet_constants(where: Condition, scan: Scan, fragment: Fragment) -> bool:
    assert scan.schema
    alike = {
        name: pa.array([value], scan.schema.field(name).type) for name, value in fragment.constants
    }
    row = as_floats(from_arrow(pa.table(alike)), scan.floats)
    return _may_meet_row(where, row, fragment)


def _may_meet_row(where: Condition, row: Columns, fragment: Fragment) -> bool:
    """Return whether a row may satisfy a condition of which some columns are known."""
    if row.keys() >= set(columns_of(where)):
        try:
            return bool(_meeting(row, where, fragment).all())
        except DataError:  # reported when the rows are read
            return True
    if isinstance(where, Both):
        each = (_may_meet_row(part, row, fragment) for part in where.parts)
        return all(each) if where.all else any(each)
    return True


def _wanted(scan: Scan, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the wanted columns; by default all except those that must be requested."""
    if columns or not scan.schema or scan.unasked.isdisjoint(scan.selection.asked):
        return tuple(columns)
    return tuple(name for name in scan.schema.names if name not in scan.unasked)


def _numbers(
    scan: Scan, fragment: Fragment, place: int, rows: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the random numbers that decide the side, for rows from a position on.

    They depend on no other file: grouping of small files, each one row, does not matter.
    """
    keys = [zlib.crc32(name) << 31 for name in _names(scan, fragment, place, rows)]
    if fragment.is_a_row_a_file:
        return np.asarray(keys, dtype=np.int64)
    first = keys[0] + fragment.skip + place
    return np.arange(first, first + rows, dtype=np.int64)


def row_numbers(scan: Scan, fragment: Fragment, place: int, rows: int, seed: int) -> Indices:
    """Return 63-bit numbers that order rows for an exact split, shape (rows,).

    They increase with the numbers of a random split. CRC-32 values of a hundred thousand files
    collide: ten bits of another hash break ties.

    Args:
        scan: how to read files.
        fragment: that has the rows.
        place: of the first row, from the fragment's beginning, including bad ones.
        rows: number of rows.
        seed: of the numbers.
    """
    drawn = RowRandom(seed, 0, _numbers(scan, fragment, place, rows)).random()
    names = _names(scan, fragment, place, rows)
    others = np.asarray([digest(name) for name in names], dtype=np.uint64)
    if not fragment.is_a_row_a_file:
        others = others ^ (np.arange(place, place + rows, dtype=np.uint64) + fragment.skip)
    last = (mix(others) & np.uint64(2**_TIE_BITS - 1)).astype(np.int64)
    return ((drawn * 2.0**_DRAWN_BITS).astype(np.int64) << _TIE_BITS) | last


def _names(scan: Scan, fragment: Fragment, place: int, rows: int) -> list[bytes]:
    """Return keys that identify files and fragments: for each row's file, or one for all."""
    begin = fragment.span[0] if fragment.span else (*fragment.row_groups, 0)[0]
    is_each = fragment.is_a_row_a_file
    paths = fragment.paths[place : place + rows] if is_each else (fragment.path,)
    return [f"{scan.name_of(path)} {begin}".encode() for path in paths]


def _of_stratum(
    holdout: Holdout, table: Columns, scan: Scan, fragment: Fragment, place: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    assert holdout.strata
    assert holdout.stratify
    numbers = row_numbers(scan, fragment, place, num_rows(table), holdout.seed)
    cuts = holdout.strata.cuts_of(kinds_of(table[holdout.stratify]))
    if cuts is None:
        raise DataError(
            f"{fragment.path}: column {holdout.stratify} has a value that it did not have when "
            "the run was planned: files must not change while a run reads them"
        )
    held = numbers <= cuts
    return held if holdout.held else ~held


def _meeting(
    table: Columns, where: Condition, fragment: Fragment
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    rows = num_rows(table)
    kept = np.zeros(rows, dtype=np.bool_)
    asked = {name: table[name] for name in columns_of(where)}
    try:
        arrays = {name: pa.array(array, from_pandas=True) for name, array in asked.items()}
        for name in _with_long_integers(where):
            if pa.types.is_floating(arrays[name].type):  # never compared with such an integer
                arrays[name] = arrays[name].cast(pa.int64())
        kinds = {name: array.type for name, array in arrays.items()}
        found = pa.table({**arrays, _PLACE: np.arange(rows)}).filter(_expression(where, kinds))
    except pa.ArrowException as error:
        said = " ".join(str(error).split())
        raise DataError(f"read.where: {fragment.path}: it cannot be asked: {said}") from error
    kept[found[_PLACE].to_numpy()] = True
    return kept


def _with_long_integers(condition: Condition) -> Iterator[str]:
    """Yield the columns that are compared with integers beyond 2**53."""
    for part in simple_parts_of(condition):
        if isinstance(part, Missing):
            continue
        values = (part.value,) if isinstance(part, Compared) else part.values
        if any(isinstance(value, int) and abs(value) > MOST_EXACT for value in values):
            yield part.column


def _expression(condition: Condition, kinds: Mapping[str, pa.DataType]) -> ds.Expression:
    """Return a condition as an Arrow expression; a column without values has the type null."""
    if isinstance(condition, Both):
        join = operator.and_ if condition.all else operator.or_
        return functools.reduce(join, (_expression(part, kinds) for part in condition.parts))
    if isinstance(condition, Compared):
        signs = {
            "==": operator.eq,
            "!=": operator.ne,
            "<": operator.lt,
            "<=": operator.le,
            ">": operator.gt,
            ">=": operator.ge,
        }
        [value] = _values([condition.value], kinds[condition.column])
        return signs[condition.sign](pc.field(condition.column), value)
    if isinstance(condition, Among):
        if pa.types.is_null(kinds[condition.column]):  # Arrow would compare types
            return pc.scalar(_UNKNOWN)
        values = _values(condition.values, kinds[condition.column])
        found = pc.field(condition.column).isin(values)
        # Arrow returns False for missing values, and `not` would make it True.
        return pc.if_else(pc.field(condition.column).is_valid(), found, _UNKNOWN)
    if isinstance(condition, Missing):
        return pc.field(condition.column).is_null()
    return ~_expression(condition.part, kinds)


def _values(values: Sequence[Value], kind: pa.DataType) -> pa.Array:
    """Return the constants of a comparison, as numbers that the column's type can have."""
    if pa.types.is_floating(kind):  # includes nullable booleans
        values = [float(value) if isinstance(value, bool) else value for value in values]
    if pa.types.is_float32(kind):
        return pa.array([_as_float32(value) for value in values])
    return pa.array(values)


def _as_float32(value: Value) -> Value:
    """Return the nearest number of a column's type: float32 has no exact 0.1."""
    if isinstance(value, (str, bool)):
        return value
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _ends(
    column: str, group: pq.RowGroupMetaData, names: Sequence[str]
) -> tuple[Value, Value] | None:
    """Return the smallest and the largest value of a column; None if the file has neither."""
    if column not in names:
        return None
    told = group.column(names.index(column)).statistics
    if told is None or not told.has_min_max:
        return None
    return told.min, told.max


def _may_be(ends: tuple[Value, Value], sign: str, value: Value) -> bool:
    low, high = ends
    alike = isinstance(low, str) == isinstance(value, str) and isinstance(low, (str, *_NUMBERS))
    if not alike:
        return True
    assert not isinstance(low, str) or isinstance(high, str)
    return {
        "==": _at_most(low, value) and _at_most(value, high),
        "!=": not (low == high == value),
        "<": _at_most(low, value) and low != value,
        "<=": _at_most(low, value),
        ">": _at_most(value, high) and high != value,
        ">=": _at_most(value, high),
    }[sign]


def _at_most(one: Value, other: Value) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return str(one) <= str(other)
    return one <= other
