"""The command of `spec.entrypoint`, run as a child process."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from trainshed.attempt.signals import REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.attempt.signals import Stop

SECONDS_FOR_LAST_WORDS = 2.0
# How Ray begins a line that it passes on from another process, in colour or not.
OTHERS_LINE = re.compile(r"(\x1b\[\d+m)?\(.+ pid=\d+")
# Replaced by the command at once. Before, it asks Linux (PR_SET_PDEATHSIG is 1) to be killed with
# its parent: a script of Ray's whose cluster is gone would try to reach it for ever.
LEASH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))
os.execv(sys.argv[1], sys.argv[1:])
"""


class Command:
    """A running command in a separate process group; its output goes to standard error.

    Args:
        words: what to execute.
        environment: all of it.
        stop: what it is told of by the signal that came.
    """

    # How it ended is for `code` to say.
    error: Exception | None = None

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], stop: Stop) -> None:
        self._stop = stop
        self.last_words = ""
        self.told: str | None = None
        leash = [sys.executable, "-c", LEASH] if sys.platform == "linux" else []
        self._process = subprocess.Popen(
            [*leash, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            process_group=0,  # Ctrl-C on the terminal is ours to pass on
        )
        self._listener = threading.Thread(target=self._listen, name="command", daemon=True)
        self._listener.start()

    @property
    def code(self) -> int | None:
        """Return its exit code, negative for the signal that ended it; None while it runs."""
        return self._process.poll()

    def is_alive(self) -> bool:
        """Say whether it runs."""
        return self.code is None

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end; on the way tell it of a stop."""
        if self._stop.reason and self.told is None:
            self.told = self._stop.reason
            number = next((n for n, reason in REASONS.items() if reason == self.told), None)
            self._signal(number or signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)

    def close(self) -> None:
        """Kill the rest of its process group, and read its remaining output."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._listener.join(SECONDS_FOR_LAST_WORDS)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _listen(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                print(line, end="", file=sys.stderr, flush=True)
                if not OTHERS_LINE.match(line):
                    self.last_words = line.strip() or self.last_words
