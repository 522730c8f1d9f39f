"""What a process does that reads for a worker: a request comes, its rows go into shared memory.

Never here: Ray, and what only the worker itself needs. Each process imports this.
"""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from dataclasses import dataclass, field, replace
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
import torch.utils.data

from trainshed.allocator import keep_freed_memory
from trainshed.data.sampler.sizes import megabytes
from trainshed.data.sources.errors import DataError, as_fault
from trainshed.data.sources.fragment_reader import (
    FragmentReader,
    alone,
    cut_parts,
    read_parts,
    stands_alone,
)
from trainshed.data.sources.stage_timer import LEDGER
from trainshed.failures import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trainshed.data.sampler.bad_records import BadRecordList
    from trainshed.data.sampler.stage_time import Spending
    from trainshed.data.sources.fragment_reader import Choice, Part, Reading, Table

Item = TypeVar("Item")

# Tables of a request, and one more at a fragment's end: so much waits for the worker twice for each
# process, and no row comes before a whole request is done. Row groups that hold more are decoded by
# several processes.
REQUEST_TABLES = 4
# Where torch has the memory that processes share. It gives more than there is, and whoever writes
# there then is ended by SIGBUS.
SHARED = Path("/dev/shm")


@dataclass(frozen=True)
class LoaderRequest:
    """Rows that one process reads, transforms and augments at a time.

    Args:
        how: they are read.
        part: where they are.
        choice: which of them are wanted.
    """

    how: Reading
    part: Part
    choice: Choice


@dataclass(frozen=True)
class Packed:
    """Tables on their way between processes: what passes through the pipe is small.

    Args:
        memory: shared, shape (bytes,).
        sizes: bytes of what lies in it: the tables without their numbers, then the numbers.
        told: what was left out on the way, which the worker has to tell.
        spent: on them, by their process.
    """

    memory: torch.Tensor
    sizes: tuple[int, ...]
    told: tuple[BadRecordList, ...] = ()
    spent: Spending = field(default_factory=dict)


def requests_for(
    how: Reading, wanted: Iterable[Part], choice: Choice, processes: int
) -> list[LoaderRequest]:
    """Return what so many processes are asked for the chosen rows of parts, in their order."""
    rows, asked = how.chunk_rows * REQUEST_TABLES, []
    for part in wanted:
        is_alone = stands_alone(how, part)
        cut = cut_parts([part], rows, rest=0 if is_alone else how.chunk_rows)
        # One process reads on, and has the next files of a bucket on their way.
        asked += [alone(how, each) for each in cut] if is_alone and processes > 1 else cut
    return [LoaderRequest(how, part, choice) for part in asked]


def untold(request: LoaderRequest) -> LoaderRequest:
    """Return a request as it goes to another process: only the worker can tell."""
    return replace(request, how=replace(request.how, tell=None))


class Requests(torch.utils.data.Dataset[Packed | DataError | InfrastructureError]):
    """The dataset of torch's DataLoader: asked for a request, it has its rows or what was wrong.

    An error is a value, as torch would raise it with other words and without what it holds.
    """

    def __init__(self) -> None:
        self._reader = FragmentReader()
        self._told: list[BadRecordList] = []

    def __getitem__(self, request: LoaderRequest) -> Packed | DataError | InfrastructureError:
        how, part, choice = request.how, request.part, request.choice
        here, self._told[:] = replace(how, tell=self._told.append), []
        try:
            packed = pack(list(read_parts(here, [part], choice, self._reader)), how.field)
            return replace(packed, told=tuple(self._told), spent=LEDGER.take())
        # A function of the user's may raise anything, and torch ends the process for some of it.
        except (Exception, SystemExit) as error:
            return as_fault(error, how.field)


def pack(tables: Sequence[Table], field: str) -> Packed:
    """Return the tables in one piece of shared memory, for which the worker has one file open.

    Raises:
        InfrastructureError: when there is no room for them.
    """
    numbers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(tables, protocol=5, buffer_callback=numbers.append)
    buffers = [memoryview(rest), *(buffer.raw() for buffer in numbers)]
    sizes = tuple(buffer.nbytes for buffer in buffers)
    check_room(sum(sizes), field)
    memory = torch.from_numpy(np.concatenate([np.asarray(buffer) for buffer in buffers]))
    # By hand: torch would do it in a thread that tells nobody of an error.
    return Packed(memory.share_memory_(), sizes)  # type: ignore[no-untyped-call]


def unpack(packed: Packed) -> list[Table]:
    """Return the tables in memory of their own, which may be changed and kept."""
    ends = np.cumsum(packed.sizes)
    rest, *numbers = np.split(packed.memory.numpy(), ends[:-1])
    copies = [part.copy() for part in numbers]
    tables: list[Table] = pickle.loads(rest.tobytes(), buffers=copies)
    return tables


def check_room(num_bytes: int, field: str) -> None:
    """Look whether there is shared memory for so many bytes.

    Raises:
        InfrastructureError: when there is not.
    """
    if not SHARED.is_dir():  # not Linux
        return
    free = shutil.disk_usage(SHARED).free
    if num_bytes > free:
        raise InfrastructureError(
            f"{field}: {SHARED} has {megabytes(free)} left and needs {megabytes(num_bytes)} for "
            "rows on their way to the worker: make it larger, or set fewer data.loaderProcesses",
            "memory",
        )


def begin_process(_: int) -> None:
    """Make ready a process that reads for a worker."""
    keep_freed_memory()
    _end_with_the_worker()


def _end_with_the_worker() -> None:
    """Have this process end as soon as the worker is gone, however it went.

    torch looks for the end of the process that forked this one, which is not the worker.
    """
    worker = parent_process()
    assert worker

    def wait() -> None:
        worker.join()
        os._exit(1)

    threading.Thread(target=wait, name="worker", daemon=True).start()


def as_it_is(item: Item) -> Item:
    """Return what is given: nothing is made of single rows."""
    return item
