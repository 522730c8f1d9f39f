"""Looks at the column whose values have each the same share held out, before a run is planned."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sampler.strata import Stratifying
from trainshed.data.sources.column_arrays import MOST_EXACT
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.grouping import value_hashes
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sampler.strata import Kinds, Strata
    from trainshed.data.sources.column_arrays import Array, Columns

    # Yields what is read of a fragment: rows of the column, and bad records between them.
    Read = Callable[[Fragment], Iterator[Columns | BadRecord]]
    # Returns the numbers of so many rows from a place of a fragment on.
    Number = Callable[[Fragment, int, int], Indices]

logger = logging.getLogger(__name__)

# Each is 16 bytes of what every task is told: 160 kB of the object store a task.
MOST_VALUES = 10_000
# Of a store whose answers are waited for, and of a disk: Arrow reads without Python's lock.
FRAGMENTS_AT_ONCE = 4
WANT = "a column of whole numbers below 2 ** 53, texts, bytes, booleans or times, one value a row"


class KnownStrata:
    """What columns were found to hold: two datasets that share files look at them once."""

    def __init__(self) -> None:
        self._found: list[tuple[object, object, Strata]] = []

    def get(self, shared: object, way: object, make: Callable[[], Strata]) -> Strata:
        """Return what is known of a column of files, read in the same way; else make it.

        Args:
            shared: the files, column, share and seed.
            way: how they are read.
            make: finds it.
        """
        for what, how, strata in self._found:
            if (what, how) == (shared, way):
                return strata
        self._found.append((shared, way, make()))
        return self._found[-1][2]

    def agrees(self, shared: object) -> bool:
        """Say whether what is shared was found the same in all ways."""
        found = [strata for what, _, strata in self._found if what == shared]
        return all(each == found[0] for each in found)


def kinds_of(array: Array) -> Kinds:
    """Return a number for each row's value, shape (rows,): alike for what is missing.

    Raises:
        DataError: saying what about the column tells no values apart.
    """
    if array.ndim > 1:
        raise DataError(f"rows of the shape {list(array.shape[1:])}")
    try:
        key = pa.array(array, from_pandas=True)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise DataError(" ".join(str(error).split())) from error
    if pa.types.is_nested(key.type):
        raise DataError("lists or structs")
    if pa.types.is_floating(key.type):
        key = pc.add(key.cast(pa.float64()), 0.0)  # else 0.0 and -0.0 would be two
    if pa.types.is_float64(key.type) or pa.types.is_integer(key.type):
        _check_whole(key, key.drop_null().to_numpy())
    elif pa.types.is_decimal(key.type):
        _check_whole(key, np.asarray(key.drop_null().to_pylist(), np.float64))
    return value_hashes(key)


def _check_whole(key: pa.Array, values: NDArray[np.float64] | NDArray[np.integer]) -> None:
    """Refuse numbers of which hardly two are the same: no share of one row is a whole row."""
    whole = np.isfinite(values) & (np.trunc(values) == values)
    # Where a value beside them is missing they are floats.
    whole &= (values < MOST_EXACT) & (values > -MOST_EXACT)
    if not whole.all():
        raise DataError(str(key.drop_null()[int(np.argmin(whole))].as_py()))


@dataclass(frozen=True)
class StrataColumn:
    """The column that is looked at.

    Args:
        name: of it.
        field: the spec's field that names it, for errors.
        read: reads it, in one fragment.
        number: of rows.
    """

    name: str
    field: str
    read: Read
    number: Number

    def rows(self, fragment: Fragment) -> Iterator[tuple[Kinds, Indices]]:
        """Yield kinds and numbers of a fragment's rows, both of shape (rows,).

        What is bad has a place, but no value: it is on no side.

        Raises:
            SpecError: where the column is not there, or does not do.
            DataError: when it cannot be read.
            InfrastructureError: when the storage does not give it.
        """
        place = 0
        for found in self.read(fragment):
            if isinstance(found, BadRecord):
                place += found.rows
                continue
            kinds = self._kinds(found, fragment)
            yield kinds, self.number(fragment, place, len(kinds))
            place += len(kinds)

    def _kinds(self, table: Columns, fragment: Fragment) -> Kinds:
        if self.name not in table:
            there = ", ".join(sorted(table)) or "others"
            raise self.refusal(f"a column of all files: {fragment.path} has {there}")
        try:
            return kinds_of(table[self.name])
        except DataError as error:
            raise self.refusal(f"{WANT}: {fragment.path} has {error}") from error

    def check_few(self, kinds: Kinds) -> None:
        """Refuse a column of more values than tasks can be told."""
        if len(kinds) > MOST_VALUES:
            want = f"a column of at most {MOST_VALUES} values, such as labels: it has more"
            raise self.refusal(want)

    def refusal(self, want: str) -> SpecError:
        """Return what is wrong with naming this column."""
        return SpecError([Problem(self.field, self.name, want)])


def strata_of(column: StrataColumn, fragments: Sequence[Fragment], share: float) -> Strata:
    """Return up to which number the rows of each value of a column are held out.

    Args:
        column: that is looked at.
        fragments: of the dataset, all of them.
        share: of the rows of each value.

    Raises:
        SpecError: for a column that is not there, does not tell values apart, or has too many.
        DataError: when it cannot be read.
        InfrastructureError: when the storage does not give it.
    """
    started = time.perf_counter()
    found = _look(column, fragments, Stratifying(share)) or _look(
        column, fragments, Stratifying(share, holds_all=True)
    )
    assert found
    seconds = time.perf_counter() - started
    said = "%s: %s of %d rows, with %d values, was looked at in %.2f s"
    logger.info(said, column.field, column.name, found.rows, found.values, seconds)
    return found


def _look(column: StrataColumn, fragments: Sequence[Fragment], into: Stratifying) -> Strata | None:
    """Read a column once; None where that was not enough."""
    lock = threading.Lock()

    def take(fragment: Fragment) -> None:
        for kinds, numbers in column.rows(fragment):
            with lock:
                into.add(kinds, numbers)
                column.check_few(into.kinds)

    with ThreadPoolExecutor(FRAGMENTS_AT_ONCE) as pool:
        coming = [pool.submit(take, fragment) for fragment in fragments]
        try:
            for each in coming:
                each.result()
        finally:
            pool.shutdown(cancel_futures=True)
    found = into.strata()
    column.check_few(into.kinds)
    return found
