"""Filters rows of files by a condition, or by the side of a split."""

from __future__ import annotations

import contextlib
import functools
import operator
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
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
from trainshed.data.sources.errors import DataError, on_one_line
from trainshed.data.sources.grouping import comparable, value_hashes
from trainshed.data.sources.literals import MisfitError, compared_as, literal
from trainshed.data.sources.stratifying import kinds_of
from trainshed_api.errors import show_value
from trainshed_api.where import (
    Among,
    Both,
    ColumnTerm,
    Compared,
    ComputedTerm,
    Matched,
    Missing,
    Not,
    Operator,
    Related,
    Sign,
    Value,
    columns_of,
    simple_parts_of,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow.parquet as pq

    from trainshed.data.sampler.fragments import Fragment, Holdout, Scan
    from trainshed.data.sources.column_arrays import Array
    from trainshed_api.where import Condition, Simple, Term

_PLACE = "__place__"
# Bits of a float in [0, 1); the remaining bits of a number break ties.
_DRAWN_BITS = 53
_TIE_BITS = NUMBER_BITS - _DRAWN_BITS
_UNKNOWN = pa.scalar(None, pa.bool_())
_UINT64_ALONE = 2**63  # and all above
_EXPECTED = "columns and constants that can be compared"
# A date and a time in a text.
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ])[0-9]{2}:")
_SIGNS: Mapping[Sign, Callable[[ds.Expression, ds.Expression], ds.Expression]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPERATORS: Mapping[Operator, Callable[[ds.Expression, ds.Expression], ds.Expression]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
# A value in a file's statistics.
Bound = Value | Decimal | date | bytes
# Columns of a file that are no nested ones: their numbers in the file and their types.
Leaves = Mapping[str, tuple[int, pa.DataType]]
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
        if holdout is not None:
            kept &= _is_on_side(holdout, each, rows, scan, fragment, place)
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


def misfits(condition: Condition, schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield what of a condition does not apply to columns of these types: got and expected."""
    kinds = {name: schema.field(name).type for name in columns_of(condition)}
    # Arrow reads a pattern only if there is a row.
    rows = pa.table({name: pa.nulls(1, compared_as(kind)) for name, kind in kinds.items()})
    for part in simple_parts_of(condition):
        try:
            rows.filter(_expression(part, kinds))
        except MisfitError as error:
            yield error.got, error.expected
        except pa.ArrowException as error:
            names = dict.fromkeys(columns_of(part))
            got = " and ".join(f"column {name} of type {kinds[name]}" for name in names)
            yield got, f"{_EXPECTED}. Reported: {on_one_line(error)}"


def may_meet(condition: Condition, group: pq.RowGroupMetaData, leaves: Leaves) -> bool:
    """Return whether a row group may have a matching row, from its column statistics."""
    if isinstance(condition, Both):
        each = (may_meet(part, group, leaves) for part in condition.parts)
        return all(each) if condition.all else any(each)
    if isinstance(condition, Compared | Among):
        column, values = condition.column, values_of(condition)
        sign: Sign = condition.sign if isinstance(condition, Compared) else "=="
        ends = _ends(column, group, leaves)
        return ends is None or any(_may_be(ends, sign, column, value) for value in values)
    if isinstance(condition, Missing) and condition.column in leaves:
        number, kind = leaves[condition.column]
        told = group.column(number).statistics
        # NaN is no value, and no statistics count it.
        is_counted = told is not None and told.has_null_count
        return pa.types.is_floating(kind) or not is_counted or told.null_count > 0
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


def _is_on_side(  # noqa: PLR0913, PLR0917 - rows, and where they are
    holdout: Holdout,
    found: Columns | BadRecord,
    rows: int,
    scan: Scan,
    fragment: Fragment,
    place: int,
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows are on the side of the split that is read, shape (rows,)."""
    if not (holdout.by or holdout.stratify):
        keys = _numbers(scan, fragment, place, rows)
    elif isinstance(found, BadRecord):  # it has no value
        return np.ones(rows, dtype=np.bool_)
    elif holdout.by:
        [key] = comparable(found, (holdout.by,), "read.holdout.by")
        keys = value_hashes(key).view(np.int64)
    else:
        return _of_stratum(holdout, found, scan, fragment, place)
    drawn = RowRandom(holdout.seed, 0, keys).random()
    return np.asarray((drawn < holdout.share) == holdout.held)


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
    try:
        arrays = {name: _comparable(name, table[name], where) for name in columns_of(where)}
        _refuse_other_times(where, arrays)
        kinds = {name: array.type for name, array in arrays.items()}
        cast = {name: array.cast(compared_as(array.type)) for name, array in arrays.items()}
        found = pa.table({**cast, _PLACE: np.arange(rows)}).filter(_expression(where, kinds))
    except MisfitError as error:
        said = f"got {error.got}; expected {error.expected}"
        raise DataError(f"read.where: {fragment.path}: {said}") from error
    except pa.ArrowException as error:
        said = f"{_EXPECTED}. Reported: {on_one_line(error)}"
        raise DataError(f"read.where: {fragment.path}: expected {said}") from error
    kept[found[_PLACE].to_numpy()] = True
    return kept


def _refuse_other_times(where: Condition, arrays: Mapping[str, pa.Array]) -> None:
    """Refuse an order of texts between times that are written in two ways.

    Raises:
        MisfitError: for a constant with T between date and time if a row has a space, or reverse.
    """
    for part in simple_parts_of(where):
        if not isinstance(part, Compared) or part.sign in {"==", "!="}:
            continue
        array, found = arrays[part.column], _TIME.match(str(part.value))
        if found is None or not pa.types.is_string(array.type):
            continue
        other = f"^{_TIME.pattern}".replace("[T ]", "T" if found[1] == " " else " ")
        rows = array.filter(pc.match_substring_regex(array, other))
        if len(rows):
            expected = f"a time as the rows have it, such as {show_value(rows[0].as_py())}"
            raise MisfitError(part.column, part.value, array.type, expected)


def _comparable(name: str, array: Array, where: Condition) -> pa.Array:
    """Return a column of rows as Arrow compares it: times are in UTC."""
    values = list(array) if array.ndim > 1 else array
    found = pa.array(values, from_pandas=True)
    if pa.types.is_timestamp(found.type):
        return found.cast(compared_as(found.type))
    integers = _type_of_integers(name, where) if pa.types.is_floating(found.type) else None
    if integers is not None:  # of which some are missing, unless they have fractions
        with contextlib.suppress(pa.ArrowInvalid):
            return found.cast(integers)
    return found


def _type_of_integers(column: str, condition: Condition) -> pa.DataType | None:
    """Return the type of integers that a column is compared with, if float64 may round one."""
    values = [
        value
        for part in simple_parts_of(condition)
        if isinstance(part, Compared | Among) and part.column == column
        for value in values_of(part)
        if isinstance(value, int)
    ]
    if max(map(abs, values), default=0) <= MOST_EXACT:
        return None
    return pa.int64() if max(values) < _UINT64_ALONE else pa.uint64()


def _expression(condition: Condition, kinds: Mapping[str, pa.DataType]) -> ds.Expression:
    """Return a condition as an Arrow expression on columns that were cast by `compared_as`.

    Args:
        condition: that rows have to meet.
        kinds: types of its columns before that; a column without values has the type null.

    Raises:
        MisfitError: for a constant that its column cannot have.
    """
    if isinstance(condition, Both):
        join = operator.and_ if condition.all else operator.or_
        return functools.reduce(join, (_expression(part, kinds) for part in condition.parts))
    if isinstance(condition, Not):
        return ~_expression(condition.part, kinds)
    return _simple_expression(condition, kinds)


def _simple_expression(condition: Simple, kinds: Mapping[str, pa.DataType]) -> ds.Expression:
    match condition:
        case Compared(column=column, sign=sign, value=value):
            return _SIGNS[sign](pc.field(column), literal(column, value, kinds[column]))
        case Among(column=column):
            return _among(condition, kinds[column])
        case Missing(column=column):
            return pc.field(column).is_null()
        case Matched(column=column, function=function, pattern=pattern):
            matches = pc.match_like if function == "like" else pc.match_substring_regex
            return matches(pc.field(column), pattern)
        case Related(left=left, sign=sign, right=right):
            return _SIGNS[sign](_term(left, kinds), _term(right, kinds))


def _among(condition: Among, kind: pa.DataType) -> ds.Expression:
    if pa.types.is_null(kind):  # Arrow would compare types
        return pc.scalar(_UNKNOWN)
    values = [literal(condition.column, value, kind) for value in condition.values]
    if pa.types.is_integer(kind):  # no integer is among fractions, and Arrow would round them
        values = [value for value in values if not pa.types.is_floating(value.type)]
    found = pc.field(condition.column).isin(pa.array(values, None if values else kind))
    # Arrow returns False for missing values, and `not` would make it True.
    return pc.if_else(pc.field(condition.column).is_valid(), found, _UNKNOWN)


def _term(term: Term, kinds: Mapping[str, pa.DataType]) -> ds.Expression:
    """Return a term as an Arrow expression. Integers stay exact but for `/`, others are float64."""
    if isinstance(term, ColumnTerm):
        column, kind = pc.field(term.column), compared_as(kinds[term.column])
        if term.is_length:
            return _length(column, kind)
        is_other = pa.types.is_decimal(kind) or pa.types.is_floating(kind)
        return column.cast(pa.float64()) if is_other else column
    if not isinstance(term, ComputedTerm):
        return pc.scalar(term)
    left, right = _term(term.left, kinds), _term(term.right, kinds)
    if term.operator == "/":
        return pc.divide(left.cast(pa.float64()), right.cast(pa.float64()))
    return _OPERATORS[term.operator](left, right)


def _length(column: ds.Expression, kind: pa.DataType) -> ds.Expression:
    if pa.types.is_nested(kind):
        return pc.list_value_length(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pc.binary_length(column)
    return pc.utf8_length(column)


def _ends(
    column: str, group: pq.RowGroupMetaData, leaves: Leaves
) -> tuple[pa.DataType, Bound, Bound] | None:
    """Return a column's type, smallest and largest value; None if the file does not say."""
    if column not in leaves:
        return None
    number, kind = leaves[column]
    told = group.column(number).statistics
    if told is None or not told.has_min_max:
        return None
    try:
        return kind, told.min, told.max
    except (ValueError, OverflowError):  # times that Python has not
        return None


def _may_be(ends: tuple[pa.DataType, Bound, Bound], sign: Sign, column: str, value: Value) -> bool:
    """Return whether a value between two others may be what a constant is compared with."""
    kind, low, high = ends
    try:
        bound = _bound(column, value, kind)
        return {
            "==": _at_most(low, bound) and _at_most(bound, high),
            "!=": not (low == high == bound),
            "<": _at_most(low, bound) and low != bound,
            "<=": _at_most(low, bound),
            ">": _at_most(bound, high) and high != bound,
            ">=": _at_most(bound, high),
        }[sign]
    except (MisfitError, TypeError):  # reported when the condition is checked
        return True


@functools.lru_cache(maxsize=1024, typed=True)
def _bound(column: str, value: Value, kind: pa.DataType) -> Bound:
    """Return a constant as Parquet's statistics have values of a type: in Python's types."""
    found = literal(column, value, kind)
    is_local = pa.types.is_timestamp(kind) and kind.tz is None
    bound: Bound = (found.cast(kind) if is_local else found).as_py()
    return bound


def _at_most(one: Bound, other: Bound) -> bool:
    return bool(operator.le(one, other))
