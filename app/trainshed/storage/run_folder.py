"""The folder of a run, <storage>/local/<name>: its layout, and who may write to it.

An attempt writes only below attempts/N, and only from the process that created attempts/N/claim.
So a driver that was wrongly believed dead damages nothing, on any storage, without locks.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.failures import InfrastructureError, is_passing
from trainshed.retry import READS
from trainshed_api.records import RunRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.storage.folder import Folder

RECORD = "run.json"
RESULT = "result.json"
REPORT = "report.html"
ATTEMPTS = "attempts"
CLAIM = "claim"
HEARTBEAT = "heartbeat"
METRICS = "metrics.jsonl"
LOG = "driver.log"
# Traces of torch.profiler, below the folder of an attempt.
TRACES = "profile"
# Cached rows for the next epoch, on the storage of the run.
ROWS = "rows"
# Marks a dataset's cache as complete.
ROWS_LIST = "kept.json"
# Ray Train's folder below an attempt's, which has the checkpoints.
RAY_FOLDER = "ray"
# Interval of heartbeats. Two unanswered requests to a bucket time out after ten seconds each, and
# clocks of network storage differ.
HEARTBEAT_SECONDS = 2.0
DEAD_AFTER_SECONDS = 45.0
# A driver whose heartbeat is older than this counts as dead.
_DOUBTED_AFTER_SECONDS = DEAD_AFTER_SECONDS / 2
# The last heartbeat of an attempt that ended by itself: the next one need not wait.
ENDED = b"ended\n"


class AttemptHeldError(Exception):
    """Another driver holds the attempt; trying again later may succeed."""


@dataclass(frozen=True)
class Claim:
    """The owner of an attempt.

    Args:
        host: name of the machine.
        boot: scope in which process numbers are unique, by `numbering`; releases before namespaces
            wrote the boot id alone.
        pid: of the driver.
        pid_started: when that process began, in clock ticks since boot.
        spec_hash: of the run.
        fresh: whether it starts over instead of from an earlier attempt.
        nonce: unique to this claim: reading it back tells whose claim it is.
    """

    host: str
    boot: str
    pid: int
    pid_started: int
    spec_hash: str
    fresh: bool
    nonce: str = ""


class ClaimedAttempt:
    """One claimed attempt; its heartbeat runs while it is open.

    Args:
        number: of it.
        folder: of it.
        clock: seconds, including those that the machine slept.
        seconds: between heartbeats.
    """

    def __init__(
        self,
        number: int,
        folder: Folder,
        clock: Callable[[], float] = time.time,
        seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.number = number
        self.folder = folder
        # Whether the next attempt was claimed while this one counted as dead. A controller that
        # counts attempts stops the driver itself, and sooner.
        self.is_overtaken = False
        self._clock = clock
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the heartbeat: the next attempt need not wait."""
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(OSError):  # then the next one waits
            self.folder.write(HEARTBEAT, ENDED)

    def _keep_beating(self) -> None:
        last = doubted_until = self._clock()
        while not self._ended.is_set():
            with contextlib.suppress(OSError):  # a full disk may have space again
                self.folder.write(HEARTBEAT, f"{time.time()}\n".encode())
                now = self._clock()
                if now - last >= _DOUBTED_AFTER_SECONDS:
                    # For a while: another driver may have seen an old heartbeat but not claimed
                    # yet.
                    doubted_until = now + DEAD_AFTER_SECONDS
                last = now
                if now < doubted_until and not self.is_overtaken:
                    following = self.folder.parent / str(self.number + 1)
                    self.is_overtaken = following.stat(CLAIM) is not None
            self._ended.wait(self._seconds)


class RunFolder:
    """A run's folder.

    Args:
        at: need not exist yet.
    """

    def __init__(self, at: Folder) -> None:
        self.at = at
        # Which attempts started over: claims never change, so each is read once.
        self._fresh: dict[int, bool] = {}

    def attempt(self, number: int) -> Folder:
        """Return the folder of an attempt."""
        return self.at / ATTEMPTS / str(number)

    def checkpoints(self, number: int) -> Folder:
        """Return the folder of an attempt's checkpoints."""
        return self.attempt(number) / RAY_FOLDER

    def attempts(self) -> list[int]:
        """Return the numbers of all attempts, in order."""
        return sorted(int(name) for name in (self.at / ATTEMPTS).names() if name.isdecimal())

    def lineage(self, *, surely: bool = False) -> list[int]:
        """Return the attempts that a new one may resume from: those since the last fresh start.

        surely: treat an unreadable claim as a fresh start.
        """
        numbers = self.attempts()
        for position in range(len(numbers) - 1, -1, -1):
            number = numbers[position]
            if number not in self._fresh and (claim := self.claimed(number)):
                self._fresh[number] = claim.fresh
            if self._fresh.get(number, surely):
                return numbers[position:]
        return numbers

    def claimed(self, number: int) -> Claim | None:
        """Return the owner of an attempt; None if the claim cannot be read."""
        folder = self.attempt(number)
        try:
            return Claim(**json.loads(READS.read(lambda: folder.read(CLAIM))))
        except (OSError, ValueError, TypeError, RecursionError):
            return None

    def claim(self, spec_hash: str, fresh: bool, number: int | None = None) -> ClaimedAttempt:
        """Claim an attempt.

        Args:
            spec_hash: of the run.
            fresh: whether it starts over instead of from an earlier attempt.
            number: of the attempt, given by a controller that knows which attempts are over; None
                for
                the next one.

        Raises:
            AttemptHeldError: while the last attempt's driver is alive, or if another driver is
                faster.
        """
        number = number or self._next_number()
        folder = self.attempt(number)
        claim = Claim(
            socket.gethostname(),
            numbering(),
            os.getpid(),
            process_start(os.getpid()),
            spec_hash,
            fresh,
            uuid.uuid4().hex,
        )
        try:
            folder.create(CLAIM, json.dumps(asdict(claim)).encode())
        except FileExistsError as error:
            raise AttemptHeldError(self._who(number)) from error
        return ClaimedAttempt(number, folder)

    def _next_number(self) -> int:
        # A folder without a claim: a driver is about to claim it, or ended before.
        numbers = self.attempts()
        while numbers and self.attempt(numbers[-1]).stat(CLAIM) is None:
            numbers.pop()
        if numbers and self.is_alive(numbers[-1]):
            raise AttemptHeldError(self._who(numbers[-1]))
        return numbers[-1] + 1 if numbers else 1

    def is_alive(self, number: int) -> bool:
        """Return whether the driver of an attempt is alive."""
        folder = self.attempt(number)
        # A new claim may precede its first heartbeat.
        last = folder.stat(HEARTBEAT) or folder.stat(CLAIM)
        if last is None or (last.name == HEARTBEAT and _has_ended(folder)):
            return False
        claim = self.claimed(number)
        if claim and (claim.host, claim.boot) == (socket.gethostname(), numbering()):
            return process_start(claim.pid) == claim.pid_started
        return folder.now() - last.modified < DEAD_AFTER_SECONDS

    def _who(self, number: int) -> str:
        claim = self.claimed(number)
        who = f"process {claim.pid} on {claim.host}" if claim else "another process"
        return f"{self.at}: attempt {number} is held by {who}; wait for its end or stop it"


def read_record(folder: Folder) -> RunRecord | None:
    """Return run.json of a run or an attempt; None when there is none that can be read.

    Raises:
        InfrastructureError: when the storage does not give it just now.
    """
    try:
        return RunRecord.model_validate_json(READS.read(lambda: folder.read(RECORD)))
    except (FileNotFoundError, ValidationError):
        return None
    except OSError as error:
        if is_passing(error):  # it may be there: to go on without would forget what was trained
            raise InfrastructureError(f"{folder / RECORD}: {error}", "storage") from error
        return None


def _has_ended(folder: Folder) -> bool:
    try:
        return folder.read(HEARTBEAT) == ENDED
    except FileNotFoundError:
        return False


def boot_id() -> str:
    """Return the id of this boot; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def numbering() -> str:
    """Return the scope of process numbers: this boot, and the namespace."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{boot_id()} {namespace}".rstrip()


def process_start(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; -1 if it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return -1
    # proc(5): state is field 3, starttime 22; field 2 is the command in brackets, with spaces.
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended; in a container nothing may ever reap it.
    return -1 if fields[0] in ("Z", "X") else int(fields[19])


def process_age_seconds() -> float:
    """Return the age of this process."""
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return uptime - process_start(os.getpid()) / os.sysconf("SC_CLK_TCK")
