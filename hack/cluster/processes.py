"""Processes of a cluster: started the same way, asked whether they live, ended for sure."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hack.cluster.failure import ClusterError

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Started:
    """A process and the file that holds all it said."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self.process.poll() is None

    def last_words(self, num_lines: int = 5) -> str:
        """Return the end of its log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-num_lines:])

    def stop(self, within_seconds: float = 5) -> None:
        """End it: by request, then by force."""
        self.process.terminate()
        try:
            self.process.wait(within_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True)
class Launcher:
    """How the processes of one cluster are started."""

    logs: Path
    # What stands before each command, such as `nsenter`.
    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    # Whether they end with the process that started them, however that one ends (Linux only).
    is_tied: bool = False

    def start(self, name: str, command: Sequence[str | Path]) -> Started:
        """Start a process in a new session, so that Ctrl-C here does not reach it."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*(_tie() if self.is_tied else ()), *self.prefix, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        return Started(name, process, log)


def wait_until(
    is_so: Callable[[], bool], what: str, *, needs: Sequence[Started], seconds: float
) -> None:
    """Wait for something that some processes have to bring about.

    Raises ClusterError at once when one of them ends, and when the time is over.
    """
    deadline = time.monotonic() + seconds
    while not is_so():
        for started in needs:
            if not started.is_running():
                raise ClusterError(
                    f"{started.name} ended with code {started.process.returncode} before {what}; "
                    f"the end of {started.log}:\n{started.last_words()}"
                )
        if time.monotonic() > deadline:
            words = "\n".join(f"{one.name}: {one.last_words(2)}" for one in needs)
            raise ClusterError(f"no sign after {seconds:.0f} s that {what}; last words:\n{words}")
        time.sleep(_POLL_SECONDS)


def _tie() -> tuple[str, ...]:
    """Return what stands before a command that has to end when this process ends."""
    if sys.platform != "linux":
        return ()
    return (sys.executable, "-IS", str(Path(__file__).with_name("tied.py")), str(os.getpid()))
