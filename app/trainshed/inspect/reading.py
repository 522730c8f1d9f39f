"""Takes rows of an input: the first ones, a sample of several positions, or all in order."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trainshed.data.sampler.bad_records import BadRecordList
from trainshed.data.sampler.function import most_asked
from trainshed.data.sources.apply_functions import transform
from trainshed.data.sources.column_arrays import cut_rows, nbytes, num_rows
from trainshed.data.sources.dataset_files import read_fragment
from trainshed.data.sources.filters import columns_to_read, selected
from trainshed.data.sources.formats.shared_types import spread_out
from trainshed.data.sources.fragment_reader import read_rows
from trainshed.failures import InfrastructureError
from trainshed.inspect.generated_rows import GeneratedRows
from trainshed_api.errors import Problem, SpecError, one_of, show_value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from trainshed.data.sampler.bad_records import Tell
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.fragment_reader import Reading
    from trainshed.inspect.inputs import RowInput
    from trainshed.inspect.skipped_records import SkippedRecords

Result = TypeVar("Result")

SAMPLE_PLACES = 8
SAMPLE_ROWS = 32
# Fragments to search if a condition excludes the first rows.
SAMPLE_TABLES = 64
# Bytes that this process reads alone: starting another takes a second.
FEW_BYTES = 32 * 2**20
# A block of Ray Data may have all rows: bytes of it to read in order to show a few.
SHOWN_BYTES = 2**20
# Rows, or bytes of rows, to read at once, before the transforms.
CHUNK_ROWS = 4096
CHUNK_BYTES = 16 * 2**20
# Rows of the first fragment that are read to estimate the row size.
FIRST_ROWS = 8
AHEAD = 64


def chunks(how: Reading, fragment: Fragment, tell: Tell | None) -> Iterator[Columns]:
    """Yield the rows of a fragment after the transforms, without empty tables.

    Args:
        how: reading options.
        fragment: to read.
        tell: called with bad records, if these are skipped.

    Raises:
        DataError: if they cannot be decoded, or a transform fails.
        InfrastructureError: if the storage does not return them.
    """
    return (columns for columns, _ in read_rows(replace(how, tell=tell), fragment, 0))


def read_untransformed(how: Reading, fragment: Fragment) -> Iterator[Columns]:
    """Yield the rows of a fragment, before the transforms."""
    wanted = columns_to_read(how.scan, how.columns)
    tables = read_fragment(how.scan, fragment, wanted, how.chunk_rows)
    return selected(tables, how.scan, fragment, how.columns) if how.scan.selection else tables


def first_rows(
    given: RowInput | GeneratedRows, rows: int
) -> Generator[dict[str, object], None, None]:
    """Yield at most this many rows, each as a dict by column."""
    for table in _tables(given, rows):
        part = cut_rows(table, 0, rows)
        for place in range(num_rows(part)):
            row = {name: array[place] for name, array in part.items()}
            yield {name: None if value is np.ma.masked else value for name, value in row.items()}
        rows -= num_rows(part)
        if not rows:
            return


def _tables(given: RowInput | GeneratedRows, rows: int) -> Iterator[Columns]:
    if isinstance(given, GeneratedRows):
        yield from (table.columns for table in given.tables(SHOWN_BYTES))
        return
    how = given.unrounded().reading(rows)
    for fragment in given.source.fragments:
        yield from chunks(how, fragment, given.left_out)


def samples(given: RowInput, rows: int = SAMPLE_ROWS) -> list[tuple[Columns, Columns]]:
    """Return rows of up to eight positions, from first to last, before and after the
    transforms; without empty positions.

    Args:
        given: the rows.
        rows: of each position.
    """
    how, fragments = given.reading(rows), given.source.fragments
    found = []
    for place in spread_out(len(fragments), SAMPLE_PLACES):
        if given.left_out:
            ways = (replace(how, transforms=()), how)
            pair = [next(chunks(way, fragments[place], given.left_out), {}) for way in ways]
            found += [(pair[0], pair[1])] if num_rows(pair[0]) else []
            continue
        tables = islice(read_untransformed(how, fragments[place]), SAMPLE_TABLES)
        read = next((table for table in tables if num_rows(table)), None)
        if read is not None:
            found.append((read, transform(read, how.transforms)))
    return found


def check_columns(given: RowInput | GeneratedRows, word: str, columns: Sequence[str]) -> None:
    """Refuse unknown columns, if the columns are known before rows are read.

    Args:
        given: the rows.
        word: argument of the command that names them.
        columns: requested columns.

    Raises:
        SpecError: naming one.
    """
    if isinstance(given, GeneratedRows) or given.transforms:
        return
    schema = given.source.scan.schema or given.source.schema
    if schema is not None:
        check_known(word, columns, schema.names)


def check_known(word: str, columns: Sequence[str], known: Sequence[str]) -> None:
    """Refuse columns that do not exist.

    Raises:
        SpecError: naming one.
    """
    for column in columns:
        if column not in known:
            raise SpecError([Problem(word, show_value(column), one_of(column, known))])


def of_parts(
    given: RowInput | GeneratedRows,
    columns: Sequence[str],
    call: Callable[[Iterable[Columns]], Result],
    processes: int,
    told: Callable[[Fragment], None],
) -> Iterator[Result]:
    """Yield the result of a function for each part of the rows, in order.

    Args:
        given: the rows.
        columns: sufficient columns if no transform runs; empty for all.
        call: picklable; called with all tables of a part.
        processes: see `in_order`.
        told: called with each fragment that was read.

    Raises:
        DataError: if rows cannot be read, transformed or made, or too many are bad.
        InfrastructureError: if the storage does not return them.
    """
    if isinstance(given, GeneratedRows):
        for table in given.tables(CHUNK_BYTES):
            yield call([table.columns])
        return
    how, fragments = given.reading(CHUNK_ROWS), given.source.fragments
    # Whether a record is bad depends on all columns that are read.
    if columns and not (given.transforms or how.scan.skips_bad):
        how = replace(how, columns=tuple(columns))
    of_fragment = functools.partial(_of_chunks, in_chunks(given, how), call)
    found = of_fragments(given, of_fragment, fragments, processes, AHEAD)
    for fragment, result in zip(fragments, found, strict=True):
        told(fragment)
        yield result


def _of_chunks(
    how: Reading,
    call: Callable[[Iterable[Columns]], Result],
    fragment: Fragment,
    tell: Tell | None,
) -> Result:
    return call(chunks(how, fragment, tell))


def in_chunks(given: RowInput, how: Reading) -> Reading:
    """Return reading options with a suitable chunk size, from the first rows of a fragment."""
    bare = replace(how, transforms=(), chunk_rows=FIRST_ROWS)
    first = next(chunks(bare, given.source.fragments[0], given.left_out), None)
    if first is None:
        return how
    rows = int(CHUNK_BYTES * num_rows(first) / max(1, nbytes(first)))
    return replace(how, chunk_rows=max(most_asked(how.transforms), min(CHUNK_ROWS, rows)))


def of_fragments(
    given: RowInput,
    call: Callable[[Fragment, Tell | None], Result],
    fragments: Sequence[Fragment],
    processes: int,
    ahead: int,
) -> Iterator[Result]:
    """Yield the result of a reading function for each fragment, and count what it skipped.

    Args:
        given: the rows that the fragments belong to.
        call: picklable; called with a fragment and a callback for bad rows.
        fragments: to call it for.
        processes: see `in_order`.
        ahead: see `in_order`.

    Raises:
        DataError: if rows cannot be read, or too many are bad.
        InfrastructureError: if a process is killed, or the storage does not return them.
    """
    anew = given.left_out.anew() if given.left_out else None
    reading = functools.partial(_bad_record_reporter, call, anew)
    for result, told in in_order(reading, fragments, processes, ahead):
        if given.left_out and told:
            given.left_out(told)
        yield result


def _bad_record_reporter(
    call: Callable[[Fragment, Tell | None], Result], anew: SkippedRecords | None, fragment: Fragment
) -> tuple[Result, BadRecordList | None]:
    """Return the result of a function, and the last report of its callback."""
    if anew is None:
        return call(fragment, None), None
    left_out, last = anew.anew(), list[BadRecordList]()

    def tell(told: BadRecordList) -> None:
        left_out(told)
        last[:] = [told]

    result = call(fragment, tell)
    return result, last[0] if last else None


def in_order(
    call: Callable[[Fragment], Result],
    fragments: Sequence[Fragment],
    processes: int,
    ahead: int,
) -> Iterator[Result]:
    """Yield the result of a function for each fragment, in order.

    Args:
        call: picklable.
        fragments: to call it for.
        processes: number of them; with 1 this process does it, as it does small inputs.
        ahead: maximum number of results in memory or in progress.

    Raises:
        InfrastructureError: if a process is killed.
    """
    if processes == 1 or sum(fragment.num_bytes for fragment in fragments) <= FEW_BYTES:
        yield from map(call, fragments)
        return
    waiting: deque[Future[Result]] = deque()
    # A process forked from one with threads may deadlock.
    context = multiprocessing.get_context("spawn")
    number = min(processes, ahead, len(fragments))
    with ProcessPoolExecutor(number, context) as pool:
        try:
            for fragment in fragments:
                if len(waiting) == ahead:
                    yield waiting.popleft().result()
                with _without_interrupts():  # starts processes
                    waiting.append(pool.submit(call, fragment))
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            said = "a reading process was killed. Use fewer --processes, which need less memory"
            raise InfrastructureError(said, "killed") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Make processes that are started here ignore Ctrl-C, from their start."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
