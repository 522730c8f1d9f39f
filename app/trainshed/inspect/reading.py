"""Takes the rows of an input: the first ones, some of many places, or all in their order."""

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
from trainshed.data.sources.fragment_reader import read_rows
from trainshed.failures import InfrastructureError
from trainshed.inspect.generated_rows import GeneratedRows
from trainshed_api.errors import Problem, SpecError, show_value

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
# Looked at, where a condition leaves none of the first ones.
SAMPLE_TABLES = 64
# Read by this process alone: another takes a second to start.
FEW_BYTES = 32 * 2**20
# Of what Ray Data makes a block may be all there is: of that so much is taken to show some rows.
SHOWN_BYTES = 2**20
# Read at once, as they are before the transforms: so many rows, or so many bytes of them.
CHUNK_ROWS = 4096
CHUNK_BYTES = 16 * 2**20
# Of the first fragment, which tell how large rows are.
FIRST_ROWS = 8
AHEAD = 64


def chunks(how: Reading, fragment: Fragment, tell: Tell | None) -> Iterator[Columns]:
    """Yield the rows of a fragment after the transforms, without tables that have none.

    Args:
        how: they are read.
        fragment: that is read.
        tell: called with what is bad, where that is left out.

    Raises:
        DataError: when they cannot be decoded, or a transform fails.
        InfrastructureError: when the storage does not give them.
    """
    return (columns for columns, _ in read_rows(replace(how, tell=tell), fragment, 0))


def _read(how: Reading, fragment: Fragment) -> Iterator[Columns]:
    """Yield the rows that are read of a fragment, before the transforms."""
    wanted = columns_to_read(how.scan, how.columns)
    tables = read_fragment(how.scan, fragment, wanted, how.chunk_rows)
    return selected(tables, how.scan, fragment, how.columns) if how.scan.selection else tables


def first_rows(
    given: RowInput | GeneratedRows, rows: int
) -> Generator[dict[str, object], None, None]:
    """Yield at most so many rows, each as a value by column."""
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


def samples(given: RowInput) -> list[tuple[Columns, Columns]]:
    """Return some rows of up to eight places, from the first to the last, before and after the
    transforms; not of places without rows."""
    how, fragments = given.reading(SAMPLE_ROWS), given.source.fragments
    places = sorted({round(place) for place in np.linspace(0, len(fragments) - 1, SAMPLE_PLACES)})
    found = []
    for place in places:
        if given.left_out:
            ways = (replace(how, transforms=()), how)
            pair = [next(chunks(way, fragments[place], given.left_out), {}) for way in ways]
            found += [(pair[0], pair[1])] if num_rows(pair[0]) else []
            continue
        tables = islice(_read(how, fragments[place]), SAMPLE_TABLES)
        read = next((table for table in tables if num_rows(table)), None)
        if read is not None:
            found.append((read, transform(read, how.transforms)))
    return found


def check_columns(given: RowInput | GeneratedRows, word: str, columns: Sequence[str]) -> None:
    """Refuse columns that are not there, where that is known before rows are read.

    Args:
        given: the rows.
        word: of the command that names them.
        columns: that are asked for.

    Raises:
        SpecError: naming one.
    """
    if isinstance(given, GeneratedRows) or given.transforms:
        return
    schema = given.source.scan.schema or given.source.schema
    if schema is not None:
        check_known(word, columns, schema.names)


def check_known(word: str, columns: Sequence[str], known: Sequence[str]) -> None:
    """Refuse columns that are none of those which are known.

    Raises:
        SpecError: naming one.
    """
    for column in columns:
        if column not in known:
            raise SpecError([Problem(word, show_value(column), f"one of {', '.join(known)}")])


def of_parts(
    given: RowInput | GeneratedRows,
    columns: Sequence[str],
    call: Callable[[Iterable[Columns]], Result],
    processes: int,
    told: Callable[[Fragment], None],
) -> Iterator[Result]:
    """Yield what a function returns for each part of the rows, in their order.

    Args:
        given: the rows.
        columns: that are enough to read, where no transform is run; empty for all.
        call: can be sent to another process; called with all tables of a part.
        processes: as `in_order` has it.
        told: called with each fragment that was read.

    Raises:
        DataError: when rows cannot be read, transformed or made, or more are left out than may be.
        InfrastructureError: when the storage does not give them.
    """
    if isinstance(given, GeneratedRows):
        for table in given.tables(CHUNK_BYTES):
            yield call([table.columns])
        return
    how, fragments = given.reading(CHUNK_ROWS), given.source.fragments
    # What is bad hangs on all columns that are read.
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
    """Return how rows are read in chunks of a good size, by the first ones of a fragment."""
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
    """Yield what a function that reads fragments returns for each, and count what it left out.

    Args:
        given: whose fragments they are.
        call: can be sent to another process; called with a fragment and what to tell of bad rows.
        fragments: to call it for.
        processes: as `in_order` has it.
        ahead: as `in_order` has it.

    Raises:
        DataError: when rows cannot be read, or more are left out than may be.
        InfrastructureError: when a process is killed, or the storage does not give them.
    """
    anew = given.left_out.anew() if given.left_out else None
    reading = functools.partial(_telling, call, anew)
    for result, told in in_order(reading, fragments, processes, ahead):
        if given.left_out and told:
            given.left_out(told)
        yield result


def _telling(
    call: Callable[[Fragment, Tell | None], Result], anew: SkippedRecords | None, fragment: Fragment
) -> tuple[Result, BadRecordList | None]:
    """Return what a function returns, and what it told last."""
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
    """Yield what a function returns for each fragment, in their order.

    Args:
        call: can be sent to another process.
        fragments: to call it for.
        processes: that do it; 1 for this one, which also does what is little.
        ahead: most results that are held or on their way.

    Raises:
        InfrastructureError: when a process is killed.
    """
    if processes == 1 or sum(fragment.num_bytes for fragment in fragments) <= FEW_BYTES:
        yield from map(call, fragments)
        return
    waiting: deque[Future[Result]] = deque()
    # What is forked from a process with threads may wait for ever.
    context = multiprocessing.get_context("spawn")
    number = min(processes, ahead, len(fragments))
    with ProcessPoolExecutor(number, context) as pool:
        try:
            for fragment in fragments:
                if len(waiting) == ahead:
                    yield waiting.popleft().result()
                with _without_interrupts():  # it starts processes
                    waiting.append(pool.submit(call, fragment))
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            said = "a process that read was killed: with fewer --processes less memory is needed"
            raise InfrastructureError(said, "killed") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let processes that are started here leave Ctrl-C to this one, from their first moment on."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
