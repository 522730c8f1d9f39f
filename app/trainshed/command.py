"""The command of `spec.entrypoint`: found before anything starts, then run as a child process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.signals import REASONS
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.signals import Stop

# These run the file that is their first argument.
PYTHONS, SHELLS = ("python", "python3"), ("bash", "sh")
# Options of Python that are followed by a value, and those after which no file comes.
VALUE_OPTIONS, NO_FILE_OPTIONS = ("-W", "-X"), ("-m", "-c")
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


def find_command(words: Sequence[str], beside: Path) -> tuple[str, ...]:
    """Return the words as they can be executed from here.

    Args:
        words: of the spec. `python` is the Python that runs this.
        beside: folder of the TrainingRun file; a program's or script's relative path that does not
            exist from here is looked for in it.

    Raises:
        SpecError: when the program or its script is not there.
    """
    name = words[0]
    found = [_find_program(name, beside), *words[1:]]
    position = _script_position(words)
    if position is not None:
        script = _find_file(words[position], beside)
        if script is None:
            field = f"spec.entrypoint[{position}]"
            raise SpecError([Problem(field, json.dumps(words[position]), _say_file(beside))])
        found[position] = script
    return tuple(found)


def _find_program(name: str, beside: Path) -> str:
    if name in PYTHONS:
        return sys.executable
    found = _find_file(name, beside) if os.sep in name else name
    program = shutil.which(found) if found else None
    if program is None:
        want = f"a program on PATH, or the path of one: {_say_file(beside)}"
        raise SpecError([Problem("spec.entrypoint[0]", json.dumps(name), want)])
    return program


def _script_position(words: Sequence[str]) -> int | None:
    """Return which word is the file that Python or a shell runs; None where there is none."""
    if words[0] not in (*PYTHONS, *SHELLS):
        return None
    position = 1
    while position < len(words) and words[position].startswith("-"):
        if words[position].startswith(NO_FILE_OPTIONS):
            return None
        position += 2 if words[position] in VALUE_OPTIONS else 1
    return position if position < len(words) else None


def _find_file(name: str, beside: Path) -> str | None:
    if Path(name).is_file():
        return name
    other = beside / name
    return str(other) if other.is_file() else None


def _say_file(beside: Path) -> str:
    places = dict.fromkeys([str(Path.cwd()), str(beside)])
    return f"a file in {' or '.join(places)}"


class Command:
    """A running command in a process group of its own; what it says goes to standard error.

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
        """Kill what is left of its group, and hear the last of it."""
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
