"""Reads the column of a stratified split, before a run is planned."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sampler.strata import Stratifying
from trainshed.data.sources.column_arrays import MOST_EXACT
from trainshed.data.sources.errors import DataError, on_one_line
from trainshed.data.sources.grouping import value_hashes
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.permutation import Indices
    from trainshed.data.sampler.strata import Kinds, Strata
    from trainshed.data.sources.column_arrays import Array, Columns

    # Yields the column's rows and bad records of a fragment.
    Read = Callable[[Fragment], Iterator[Columns | BadRecord]]
    # Returns the numbers of this many rows from a position of a fragment on.
    Number = Callable[[Fragment, int, int], Indices]

logger = logging.getLogger(__name__)

# Each takes 16 bytes in every task's arguments: 160 kB of the object store per task.
MOST_VALUES = 10_000
# Threads for a store with slow responses, and for a disk: Arrow releases Python's lock.
FRAGMENTS_AT_ONCE = 4
EXPECTED = (
    "a column of whole numbers below 2 ** 53, texts, bytes, booleans or times, one value a row"
)


@dataclass(eq=False)
class KnownStrata:
    """Results by column: two datasets that share files read it once."""

    _found: list[tuple[object, object, Strata]] = field(default_factory=list)

    def get(self, shared: object, way: object, make: Callable[[], Strata]) -> Strata:
        """Return the result for a column of files with equal options; compute it if unknown.

        Args:
            shared: files, column, share and seed.
            way: how to read them.
            make: computes it.
        """
        for what, how, strata in self._found:
            if (what, how) == (shared, way):
                return strata
        self._found.append((shared, way, make()))
        return self._found[-1][2]

    def agrees(self, shared: object) -> bool:
        """Return whether all ways of reading gave the same result."""
        found = [strata for what, _, strata in self._found if what == shared]
        return all(each == found[0] for each in found)


def kinds_of(array: Array) -> Kinds:
    """Return a hash for each row's value, shape (rows,): equal for missing values.

    Raises:
        DataError: if the column cannot be stratified.
    """
    if array.ndim > 1:
        raise DataError(f"rows of the shape {list(array.shape[1:])}")
    try:
        key = pa.array(array, from_pandas=True)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise DataError(on_one_line(error)) from error
    if pa.types.is_nested(key.type):
        raise DataError("lists or structs")
    if pa.types.is_floating(key.type):
        key = pc.add(key.cast(pa.float64()), 0.0)  # joins 0.0 and -0.0
    if pa.types.is_float64(key.type) or pa.types.is_integer(key.type):
        _check_whole(key, key.drop_null().to_numpy())
    elif pa.types.is_decimal(key.type):
        _check_whole(key, np.asarray(key.drop_null().to_pylist(), np.float64))
    return value_hashes(key)


def _check_whole(key: pa.Array, values: NDArray[np.float64] | NDArray[np.integer]) -> None:
    """Refuse numbers that hardly repeat: a share of one row is not a whole row."""
    whole = np.isfinite(values) & (np.trunc(values) == values)
    # Nullable integers are floats.
    whole &= (values < MOST_EXACT) & (values > -MOST_EXACT)
    if not whole.all():
        raise DataError(str(key.drop_null()[int(np.argmin(whole))].as_py()))


@dataclass(frozen=True)
class StrataColumn:
    """The column of a stratified split.

    Args:
        name: of it.
        field: the spec's field, for errors.
        read: reads it in one fragment.
        number: returns the numbers of rows.
    """

    name: str
    field: str
    read: Read
    number: Number

    def rows(self, fragment: Fragment) -> Iterator[tuple[Kinds, Indices]]:
        """Yield hashes and numbers of a fragment's rows, both of shape (rows,).

        A bad record has a position but no value: it is on no side.

        Raises:
            SpecError: if the column does not exist, or cannot be stratified.
            DataError: if it cannot be read.
            InfrastructureError: if the storage does not return it.
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
        try:
            return kinds_of(table[self.name])
        except DataError as error:
            raise self.refusal(f"{EXPECTED}: {fragment.path} has {error}") from error

    def check_few(self, kinds: Kinds) -> None:
        """Refuse a column with more values than tasks can receive."""
        if len(kinds) > MOST_VALUES:
            expected = f"a column of at most {MOST_VALUES} values, such as labels: it has more"
            raise self.refusal(expected)

    def refusal(self, expected: str) -> SpecError:
        """Return the error for this column."""
        return SpecError([Problem(self.field, self.name, expected)])


def strata_of(column: StrataColumn, fragments: Sequence[Fragment], share: float) -> Strata:
    """Return up to which number the rows of each value of a column are held out.

    Args:
        column: to read.
        fragments: of the dataset, all of them.
        share: of the rows of each value.

    Raises:
        SpecError: for a column that does not exist, cannot be stratified, or has too many values.
        DataError: if it cannot be read.
        InfrastructureError: if the storage does not return it.
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
    """Read a column once; None if the result is not exact."""
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
