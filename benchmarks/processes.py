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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
# Set for all processes of a side: some are no longer descendants of its first process at the end.
MARK = "TRAINSHED_BENCHMARK_SIDE"


class SideFailedError(RuntimeError):
    """A side failed; the message ends with the last of its output."""


@contextlib.contextmanager
def busy_cores(cores: int) -> Iterator[None]:
    """Keep this many cores busy, each with one process."""
    processes = [subprocess.Popen([PYTHON, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def time_command(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = 300,
) -> float:
    """Run a command in the root of the repository and return the seconds that it takes.

    Each of its processes computes with one thread, unless the environment says otherwise.

    Args:
        command: program and arguments.
        environment: variables to add to those of this process.
        timeout_seconds: after which the command counts as failed.

    Raises:
        SideFailedError: if the command fails.
    """
    mark = uuid.uuid4().hex
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", MARK: mark}
    variables = {**os.environ, **settings, **(environment or {})}
    # A file, not a pipe: a process that outlives the command would keep the pipe open.
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        try:
            subprocess.run(
                command,
                cwd=ROOT,
                env=variables,
                stdout=output,
                stderr=output,
                start_new_session=True,
                timeout=timeout_seconds,
                check=True,
            )
        except subprocess.SubprocessError as error:
            output.seek(0)
            tail = output.read().decode(errors="replace")[-4000:]
            raise SideFailedError(f"{error}\n{tail}") from error
        finally:
            seconds = time.perf_counter() - started
            _kill_marked(mark)
    return seconds


def run_module(
    module: str,
    folder: Path,
    options: Mapping[str, object],
    *,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = 300,
) -> Any:
    """Run `main(**options)` of a module in a new process; return its result, read from JSON.

    Args:
        module: dotted name.
        folder: for the file with the result.
        options: keyword arguments of `main`, values that JSON can represent.
        environment: see `time_command`.
        timeout_seconds: see `time_command`.
    """
    file = folder / "result.json"
    command = [PYTHON, "-m", *module_arguments(module, options, file)]
    time_command(command, environment=environment, timeout_seconds=timeout_seconds)
    return json.loads(file.read_text(encoding="utf-8"))


def module_arguments(module: str, options: Mapping[str, object], file: Path) -> list[str]:
    """Return what follows `python -m` to run a module's `main` and write its result to a file."""
    return ["benchmarks.plain.program", module, json.dumps(options, default=str), str(file)]


def _kill_marked(mark: str) -> None:
    """Kill all processes that have this mark in their environment."""
    variable = f"{MARK}={mark}".encode()
    for variables in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if variable in variables.read_bytes().split(b"\0"):
                os.kill(int(variables.parent.name), signal.SIGKILL)
