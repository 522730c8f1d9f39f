"""Runs one side of a benchmark in its own processes, times it and kills what it leaves running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
# Carried by all processes of a side, wherever they come to hang in the tree of processes.
MARK = "TRAINSHED_BENCHMARK_SIDE"


class SideFailedError(RuntimeError):
    """A side did not end well; the message has the end of what it said."""


@contextlib.contextmanager
def busy_cores(cores: int) -> Iterator[None]:
    """Have a program for each of so many cores that does nothing else."""
    busy = [subprocess.Popen([PYTHON, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def seconds_of(
    command: Sequence[str],
    *,
    threads: int = 1,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = 300,
) -> float:
    """Run a command and return the seconds from its start to its end.

    Args:
        command: run from the root of the repository.
        threads: of each process for computing, the same on all sides.
        environment: added to this process's.
        timeout_seconds: then it has failed.

    Raises:
        SideFailedError: when it fails.
    """
    mark = uuid.uuid4().hex
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": str(threads),
        MARK: mark,
        **(environment or {}),
    }
    # A file, not a pipe: a process that outlives the command would hold the pipe open.
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=said, stderr=said, start_new_session=True
        )
        try:
            code: int | None = process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            seconds = time.perf_counter() - began
            _kill_marked(mark)
            process.wait()
        if code != 0:
            said.seek(0)
            tail = said.read().decode(errors="replace")[-4000:]
            how = f"exit code {code}" if code is not None else f"no end in {timeout_seconds} s"
            raise SideFailedError(f"{' '.join(command)}: {how}\n{tail}")
    return seconds


def output_of(
    module: str,
    folder: Path,
    options: Mapping[str, object],
    *,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = 300,
) -> str:
    """Run a program that `benchmarks.plain.program` starts; return what it found, as JSON.

    Args:
        module: the program's name.
        folder: takes the file with what it found.
        options: the arguments of its main function.
        environment: see `seconds_of`.
        timeout_seconds: see `seconds_of`.
    """
    out = folder / "found.json"
    command = [PYTHON, "-m", module, *program_words(options, out)]
    seconds_of(command, environment=environment, timeout_seconds=timeout_seconds)
    return out.read_text(encoding="utf-8")


def program_words(options: Mapping[str, object], out: Path) -> list[str]:
    """Return the arguments of the command line of such a program."""
    return [json.dumps(options, default=str), str(out)]


def _kill_marked(mark: str) -> None:
    """Kill what is left of a side."""
    wanted = f"{MARK}={mark}".encode()
    for variables in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in variables.read_bytes().split(b"\0"):
                os.kill(int(variables.parent.name), signal.SIGKILL)
