"""Reads the rows of an input: the first ones, some of many places, or all in their order."""

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

from trainshed.data.order.bad_records import Told
from trainshed.data.read.apply import transform
from trainshed.data.read.columns import cut_rows, num_rows
from trainshed.data.read.files import read_fragment
from trainshed.data.read.selecting import columns_to_read, selected
from trainshed.data.read.source import read_rows
from trainshed.faults import WorldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from trainshed.data.order.bad_records import Tell
    from trainshed.data.order.files import Fragment
    from trainshed.data.read.columns import Columns
    from trainshed.data.read.source import Reading
    from trainshed.rows.inputs import Input
    from trainshed.rows.left_out import LeftOut

Result = TypeVar("Result")

SAMPLE_PLACES = 8
SAMPLE_ROWS = 32
# Looked at, where a condition leaves none of the first ones.
SAMPLE_TABLES = 64
# Read by this process alone: another takes a second to start.
FEW_BYTES = 32 * 2**20


def chunks(how: Reading, fragment: Fragment, tell: Tell | None) -> Iterator[Columns]:
    """Yield the rows of a fragment after the transforms, without tables that have none.

    Args:
        how: they are read.
        fragment: that is read.
        tell: called with what is bad, where that is left out.

    Raises:
        DataError: when they cannot be decoded, or a transform fails.
        WorldError: when the storage does not give them.
    """
    return (columns for columns, _ in read_rows(replace(how, tell=tell), fragment, 0))


def _read(how: Reading, fragment: Fragment) -> Iterator[Columns]:
    """Yield the rows that are read of a fragment, before the transforms."""
    wanted = columns_to_read(how.scan, how.columns)
    tables = read_fragment(how.scan, fragment, wanted, how.chunk_rows)
    return selected(tables, how.scan, fragment, how.columns) if how.scan.selection else tables


def first_rows(given: Input, rows: int) -> Iterator[dict[str, object]]:
    """Yield at most so many rows, each as a value by column."""
    how = given.reading(rows)
    for fragment in given.source.fragments:
        for table in chunks(how, fragment, given.left_out):
            part = cut_rows(table, 0, rows)
            for place in range(num_rows(part)):
                yield {name: array[place] for name, array in part.items()}
            rows -= num_rows(part)
            if not rows:
                return


def samples(given: Input) -> list[tuple[Columns, Columns]]:
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


def of_fragments(
    given: Input,
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
        WorldError: when a process is killed, or the storage does not give them.
    """
    anew = given.left_out.anew() if given.left_out else None
    reading = functools.partial(_telling, call, anew)
    for result, told in in_order(reading, fragments, processes, ahead):
        if given.left_out and told:
            given.left_out(told)
        yield result


def _telling(
    call: Callable[[Fragment, Tell | None], Result], anew: LeftOut | None, fragment: Fragment
) -> tuple[Result, Told | None]:
    """Return what a function returns, and what it told last."""
    if anew is None:
        return call(fragment, None), None
    left_out, last = anew.anew(), list[Told]()

    def tell(told: Told) -> None:
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
        WorldError: when a process is killed.
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
            raise WorldError(said, "killed") from error
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
