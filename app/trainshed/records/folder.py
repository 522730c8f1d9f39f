"""The folder of a run, <storage>/local/<name>: who may write to it, and what lies where.

Every attempt writes only under attempts/N, and only the process that made attempts/N/claim; so a
driver that was believed dead can spoil nothing, on any storage, without locks.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from trainshed.patience import READS
from trainshed.records import durable

CLAIM = "claim"
HEARTBEAT = "heartbeat"
# Ray Train's own folder below an attempt's, where checkpoints lie.
RAY_FOLDER = "ray"
# The heartbeat's file is touched this often; storage clocks and slow writes get ten times as long.
HEARTBEAT_SECONDS = 2.0
DEAD_AFTER_SECONDS = 20.0


class AttemptHeldError(Exception):
    """Another driver holds the attempt; trying again later may succeed."""


@dataclass(frozen=True)
class Claim:
    """Who made an attempt.

    Args:
        host: name of the machine.
        boot: id of its boot; process numbers mean nothing in another one.
        pid: of the driver.
        pid_started: when that process began, in clock ticks since boot.
        spec_hash: of the run.
        fresh: whether it starts anew rather than from an earlier attempt.
    """

    host: str
    boot: str
    pid: int
    pid_started: int
    spec_hash: str
    fresh: bool


class Attempt:
    """One claimed attempt; while it is open its heartbeat goes on."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.folder = folder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, name="heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the heartbeat: the next attempt need not wait."""
        self._ended.set()
        self._thread.join()
        (self.folder / HEARTBEAT).unlink(missing_ok=True)

    def _keep_beating(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(OSError):  # a full disk may have room again
                beat(self.folder)


class RunFolder:
    """A run's folder.

    Args:
        path: need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def record(self) -> Path:
        """Return run.json."""
        return self.path / "run.json"

    @property
    def result(self) -> Path:
        """Return result.json."""
        return self.path / "result.json"

    def attempt(self, number: int) -> Path:
        """Return the folder of an attempt."""
        return self.path / "attempts" / str(number)

    def checkpoints(self, number: int) -> Path:
        """Return the folder of an attempt's checkpoints."""
        return self.attempt(number) / RAY_FOLDER

    def attempts(self) -> list[int]:
        """Return the numbers of all attempts, in order."""
        folders = (self.path / "attempts").glob("[0-9]*")
        return sorted(int(folder.name) for folder in folders if folder.name.isdigit())

    def lineage(self, *, surely: bool = False) -> list[int]:
        """Return the attempts that a new one may go on from: those since the last fresh start.

        surely: what cannot be read may have been one.
        """
        numbers = self.attempts()
        for position in range(len(numbers) - 1, -1, -1):
            claim = self.claimed(numbers[position])
            if claim.fresh if claim else surely:
                return numbers[position:]
        return numbers

    def claimed(self, number: int) -> Claim | None:
        """Return who made an attempt; None when the claim cannot be read."""
        file = self.attempt(number) / CLAIM
        try:
            return Claim(**json.loads(READS.read(lambda: file.read_text(encoding="utf-8"))))
        except (OSError, ValueError, TypeError):
            return None

    def claim(self, spec_hash: str, fresh: bool, number: int | None = None) -> Attempt:
        """Make an attempt and hold it.

        Args:
            spec_hash: of the run.
            fresh: whether it starts anew rather than from an earlier attempt.
            number: of the attempt where a controller counts them, and knows which are over; None
                for the next one.

        Raises:
            AttemptHeldError: while the last attempt's driver is alive, or when another is faster.
        """
        number = number or self._next_number()
        folder = self.attempt(number)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / CLAIM).exists():
            beat(folder)  # before the claim: one without a heartbeat is that of one that ended
        claim = Claim(
            socket.gethostname(),
            boot_id(),
            os.getpid(),
            process_start(os.getpid()),
            spec_hash,
            fresh,
        )
        try:
            _make_once(folder / CLAIM, json.dumps(asdict(claim)))
        except FileExistsError as error:
            raise AttemptHeldError(self._who(number)) from error
        # What lies in it is worth no more than its name.
        for made in (folder, folder.parent, self.path, self.path.parent):
            durable.sync_folder(made)
        return Attempt(number, folder)

    def _next_number(self) -> int:
        # A folder without a claim is somebody's who is about to make it, or never came to it.
        claimed = [n for n in self.attempts() if (self.attempt(n) / CLAIM).exists()]
        if claimed and self.is_alive(claimed[-1]):
            raise AttemptHeldError(self._who(claimed[-1]))
        return claimed[-1] + 1 if claimed else 1

    def is_alive(self, number: int) -> bool:
        """Say whether the driver of an attempt is at work."""
        heartbeat = self.attempt(number) / HEARTBEAT
        if not heartbeat.exists():
            return False
        claim = self.claimed(number)
        if claim and (claim.host, claim.boot) == (socket.gethostname(), boot_id()):
            return process_start(claim.pid) == claim.pid_started
        return time.time() - heartbeat.stat().st_mtime < DEAD_AFTER_SECONDS

    def _who(self, number: int) -> str:
        claim = self.claimed(number)
        who = f"process {claim.pid} on {claim.host}" if claim else "another process"
        return f"{self.path}: attempt {number} is held by {who}; wait for its end or stop it"


def _make_once(path: Path, text: str) -> None:
    """Write a whole file that nobody has made, and have it on its disk.

    Raises:
        FileExistsError: when somebody has.
    """
    aside = path.with_name(f".{path.name}-{socket.gethostname()}-{os.getpid()}")
    durable.write_bytes(aside, text.encode())
    try:
        os.link(aside, path)
    except FileExistsError:
        raise
    except OSError:  # storage without links
        with path.open("xb") as file:
            file.write(text.encode())
            durable.sync(file)
    finally:
        aside.unlink(missing_ok=True)


def beat(folder: Path) -> None:
    """Show that the driver of the attempt in a folder is at work."""
    (folder / HEARTBEAT).write_text(f"{time.time()}\n", encoding="ascii")


def boot_id() -> str:
    """Return the id of this boot; empty where the system tells none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def process_start(pid: int) -> int:
    """Return when a process began, in clock ticks since boot; -1 when it is over or never was."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return -1
    # proc(5): state is field 3, starttime 22; field 2 is the command in brackets, spaces and all.
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended; who should ask for its exit code may never do so, in a container for one.
    return -1 if fields[0] in ("Z", "X") else int(fields[19])


def process_age_seconds() -> float:
    """Return how long this process has lived."""
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return uptime - process_start(os.getpid()) / os.sysconf("SC_CLK_TCK")
