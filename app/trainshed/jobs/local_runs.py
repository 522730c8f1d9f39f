"""Runs of drivers on this machine: listed from their storage, stopped by their lease.

The lease of an attempt is its claim, which names the driver's process, and its heartbeat.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.jobs.cluster_error import ClusterError
from trainshed.retry import READS
from trainshed.storage.run_folder import (
    CLAIM,
    LOG,
    RESULT,
    RunFolder,
    numbering,
    process_start,
)
from trainshed_api.names import EXIT_INVALID
from trainshed_api.records import ResultRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.storage.folder import Folder

# A log of a worker, also one that still grows in a bucket.
_OF_A_WORKER = re.compile(r"(\d+)\.log\b")


@dataclass(frozen=True)
class LocalRun:
    """A run and the state of its last attempt.

    Args:
        name: of the run.
        folder: of the run.
        status: Running, an outcome, or Interrupted for a driver that was killed.
        attempt: number of the last attempt.
        started: of that attempt, in seconds since 1970.
        ended: the same; None if it runs, or nobody knows.
    """

    name: str
    folder: Folder
    status: str
    attempt: int
    started: float
    ended: float | None

    @property
    def is_running(self) -> bool:
        """Return whether its driver is alive."""
        return self.status == "Running"


def local_runs(storage: Folder) -> list[LocalRun]:
    """Return the runs below a storage that drivers of this or other machines began, by name."""
    folder = storage / "local"
    return sorted(_runs(folder), key=lambda run: run.name)


def _runs(folder: Folder) -> Iterator[LocalRun]:
    for name in READS.read(folder.names):
        if run := read_local_run(folder / name):
            yield run


def read_local_run(folder: Folder) -> LocalRun | None:
    """Return the run of a folder; None if it has no claimed attempt."""
    run = RunFolder(folder)
    for number in reversed(run.attempts()):
        claim = run.attempt(number).stat(CLAIM)
        if claim is None:
            continue
        if run.is_alive(number):
            status, ended = "Running", None
        elif (result := read_result(folder)) and result.attempt == number:
            status, ended = result.outcome, result.finished_at.timestamp()
        else:
            status, ended = "Interrupted", None
        return LocalRun(folder.name, folder, status, number, claim.modified, ended)
    return None


def stop_local(run: LocalRun) -> None:
    """Ask the driver of a run to stop after a checkpoint, as SIGTERM does.

    Raises:
        ClusterError: if the driver is a process of another machine.
    """
    claim = RunFolder(run.folder).claimed(run.attempt)
    if claim is None or (claim.host, claim.boot) != (socket.gethostname(), numbering()):
        host = claim.host if claim else "another machine"
        said = f"{run.name} runs on {host}: stop it there, with trainshed stop {run.name}"
        raise ClusterError(said, EXIT_INVALID)
    try:
        process = os.pidfd_open(claim.pid)
    except ProcessLookupError:
        return
    try:
        # The number may belong to another process by now; the descriptor cannot change again.
        if process_start(claim.pid) == claim.pid_started:
            signal.pidfd_send_signal(process, signal.SIGTERM)
    finally:
        os.close(process)


def read_result(folder: Folder) -> ResultRecord | None:
    """Return how a run's last finished attempt ended; None if nothing says so."""
    try:
        return ResultRecord.model_validate_json(READS.read(lambda: folder.read(RESULT)))
    except (FileNotFoundError, ValidationError):
        return None


def find_logs(attempt: Folder) -> Iterator[tuple[str, Folder]]:
    """Yield the name and the folder of each log of an attempt: its driver's, then its workers'."""
    from trainshed.worker import process_log

    yield LOG, attempt
    workers = attempt / process_log.FOLDER
    ranks = {int(found[1]) for name in workers.names() if (found := _OF_A_WORKER.match(name))}
    for rank in sorted(ranks):
        yield process_log.name_of(rank), workers
