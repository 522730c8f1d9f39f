"""Processes that read for a worker, by torch's DataLoader: kept over epochs, shared by datasets."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from itertools import chain
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from typing import TYPE_CHECKING, cast

import torch.utils.data

from trainshed.data.loader.requests import (
    LoaderRequest,
    Requests,
    as_it_is,
    begin_process,
    unpack,
    untold,
)
from trainshed.data.sampler.stage_time import STARVED, TRANSFER, key_of
from trainshed.data.sources.errors import DataError, raise_again
from trainshed.data.sources.stage_timer import LEDGER
from trainshed.failures import InfrastructureError, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from multiprocessing.process import BaseProcess

    from trainshed.data.loader.requests import Packed
    from trainshed.data.sources.fragment_reader import Table

# Requests of each process that are under way or wait.
AHEAD = 2
# From the end of a process until its end can be seen.
END_SECONDS = 1.0

_starting = threading.Lock()


class Processes:
    """So many processes for each pass that is open, all of them over whatever dataset.

    A pass that is read to its end leaves its processes to the next one; one that is given up in its
    middle ends them, as they are at work for it.

    Args:
        number: of processes.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._idle: list[_Loader] = []
        self._lock = threading.Lock()
        # What forks them imports torch meanwhile, which takes seconds.
        with _without_file_of_main():
            _Context()
            ensure_running()

    def read(self, requests: Iterable[LoaderRequest]) -> Iterator[list[Table]]:
        """Yield the tables of each request, in memory of their own.

        Args:
            requests: in their order; some are taken ahead.

        Raises:
            DataError: when rows cannot be read, or a function fails.
            InfrastructureError: when a process is lost, or storage or memory fail.
        """
        coming = iter(requests)
        first = next(coming, None)
        if first is None:
            return
        loader, is_last = self._taken(), False
        try:
            bare = map(untold, chain([first], coming))
            for packed, is_last in loader.read(bare, first.how.field):
                if is_last:  # nobody asks for more than the rows that are wanted
                    self._leave(loader)
                if first.how.tell:
                    for told in packed.told:
                        first.how.tell(told)
                LEDGER.add(packed.spent)
                with LEDGER.inside(key_of(first.how.field, TRANSFER)):
                    tables = unpack(packed)
                del packed  # there is little memory to share
                yield tables
        finally:
            if not is_last:
                loader.end()

    def _taken(self) -> _Loader:
        with self._lock:
            while self._idle:
                loader = self._idle.pop()
                if loader.is_whole:
                    return loader
        return _Loader(self.number)

    def _leave(self, loader: _Loader) -> None:
        with self._lock:
            self._idle.append(loader)


class _Loader:
    """One of torch's loaders, whose processes live until it ends.

    Args:
        number: of processes.
    """

    def __init__(self, number: int) -> None:
        self._context = _Context()
        self._requests = _Order()
        # The context is a fork server's: threads of Ray and CUDA may hold locks that a copy of the
        # worker would wait for. torch draws a seed for each process: see LocalSource.
        self._loader = torch.utils.data.DataLoader(
            Requests(),
            batch_size=None,
            sampler=self._requests,
            num_workers=number,
            collate_fn=as_it_is,
            worker_init_fn=begin_process,
            multiprocessing_context=self._context,
            generator=torch.Generator(),
            prefetch_factor=AHEAD,
            persistent_workers=True,
        )

    @property
    def is_whole(self) -> bool:
        """Say whether all of its processes live."""
        return all(process.is_alive() for process in self._context.started)

    def read(self, requests: Iterator[LoaderRequest], field: str) -> Iterator[tuple[Packed, bool]]:
        """Yield what is answered to each request, and whether it was the last one.

        After that nothing is under way.
        """
        self._requests.begin(requests)
        try:
            with _without_file_of_main():
                answers = iter(self._loader)
            awaited = LEDGER.each(key_of(field, STARVED), answers)
            for number, answer in enumerate(awaited, 1):
                if isinstance(answer, (DataError, InfrastructureError)):
                    raise_again(answer)
                yield answer, self._requests.has_ended_after(number)
                del answer
        # torch has a RuntimeError for a process that it misses, and the pipe errors of its own.
        except (RuntimeError, OSError, EOFError) as error:
            lost = self._lost(field)
            if lost is None:
                raise
            raise lost from error

    def end(self) -> None:
        """End the processes, whatever they do; torch would wait for what is under way."""
        for process in self._context.started:
            process.kill()

    def _lost(self, field: str) -> InfrastructureError | None:
        """Return what became of the first process that ended; None where all of them live."""
        started = self._context.started
        wait([process.sentinel for process in started], timeout=END_SECONDS)
        codes = [(process.pid, process.exitcode) for process in started]
        return next((_ended(field, pid, code) for pid, code in codes if code is not None), None)


class _Order(torch.utils.data.Sampler[LoaderRequest]):
    """The requests in their order; torch asks for the next before it hands an answer out."""

    def __init__(self) -> None:
        self.begin(iter(()))

    def begin(self, requests: Iterator[LoaderRequest]) -> None:
        """Have these requests come next."""
        self._coming = requests
        self._asked = 0
        self._has_ended = False

    def has_ended_after(self, answers: int) -> bool:
        """Say whether so many answers are those to all requests."""
        return self._has_ended and self._asked == answers

    def __iter__(self) -> Iterator[LoaderRequest]:
        return self

    def __next__(self) -> LoaderRequest:
        request = next(self._coming, None)
        if request is None:
            self._has_ended = True
            raise StopIteration
        self._asked += 1
        return request


class _Context(ForkServerContext):
    """Starts the processes of one loader and keeps them: torch says little of how they ended."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[BaseProcess] = []
        # What forks them has imported all that they need: a process starts in milliseconds.
        self.set_forkserver_preload([Requests.__module__])

    def Process(self, *args: object, **kwargs: object) -> BaseProcess:  # type: ignore[override]  # noqa: N802
        """Return a process that is not started yet."""
        made = cast("BaseProcess", ForkServerContext.Process(*args, **kwargs))  # type: ignore[arg-type]
        self.started.append(made)
        return made


@contextmanager
def _without_file_of_main() -> Iterator[None]:
    """Hide the file that this process began with: each process that starts would run it as well.

    Python does that for functions that are defined there. Ray's workers begin with a file that
    imports all of Ray, which takes a second and memory; what reads is always in a module.
    """
    main = vars(sys.modules["__main__"])
    with _starting:
        file = main.pop("__file__", None)
        try:
            yield
        finally:
            if file is not None:
                main["__file__"] = file


def _ended(field: str, pid: int | None, code: int) -> InfrastructureError:
    """Return what a process was lost by, as its exit code tells."""
    said = f"{field}: process {pid} that read and transformed rows for a worker"
    kinds: dict[int, tuple[str, Kind]] = {
        -signal.SIGKILL: (
            "was killed (SIGKILL), as happens where memory is used up: give the workers more, or "
            "set fewer data.loaderProcesses",
            "killed",
        ),
        -signal.SIGBUS: (
            "was ended by SIGBUS, as happens where /dev/shm is full: make it larger, or set fewer "
            "data.loaderProcesses",
            "memory",
        ),
    }
    by = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    words, kind = kinds.get(code, (by, "node"))
    return InfrastructureError(f"{said} {words}", kind)
