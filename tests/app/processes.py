"""Which processes a test has left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

NAME = "STARTED_BY_TEST"
ROOT = Path(__file__).parents[2]
# What ends is replaced by what it has just started: once is not enough.
WATCH = """
import sys
from tests.app.processes import Mark
sys.stdin.read()
mark = Mark(sys.argv[1])
while mark.processes():
    mark.kill()
"""


@dataclass(frozen=True)
class Mark:
    """A mark in the environment that every child inherits, however far it runs away."""

    value: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable to start a process with."""
        return {NAME: self.value}

    def processes(self) -> list[str]:
        """Return the commands that run under this mark now; zombies are over."""
        return list(self.commands().values())

    def commands(self) -> dict[int, str]:
        """Return these commands by process."""
        found = {}
        for folder in self._folders():
            with contextlib.suppress(OSError):  # it ended meanwhile
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = words
        return found

    def kill(self) -> None:
        """Kill all that runs under this mark."""
        for folder in self._folders():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(folder.name), signal.SIGKILL)

    def _folders(self) -> list[Path]:
        mine = f"{NAME}={self.value}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
                if mine in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(folder)
        return found

    def left_over(self, within_seconds: float = 30.0) -> list[str]:
        """Return what still runs after a while; empty as soon as nothing does."""
        deadline = time.monotonic() + within_seconds
        while (found := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


@contextmanager
def end_with_us(mark: Mark) -> Iterator[None]:
    """Kill what runs under a mark afterwards, and as well when this process is killed before.

    Daemons have no parent to end with: a process beside them waits for the end of a pipe of ours.
    """
    watcher = subprocess.Popen(
        [sys.executable, "-c", WATCH, mark.value],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the tests
    )
    try:
        yield
    finally:
        watcher.communicate()


def children() -> set[str]:
    """Return the numbers of this process's children."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {number for task in tasks for number in task.read_text().split()}
