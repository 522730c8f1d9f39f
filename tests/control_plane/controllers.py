"""The controller of a test: in a thread of this process, or as a process of its own."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import aiohttp

from tests.control_plane.plugin import ROOT
from trainshed_controller.operator import Operator
from trainshed_controller.settings import Platform

_PATIENCE_SECONDS = 60


class Controller(Protocol):
    """One life of a controller: begun when it is made, over when it was killed or stopped."""

    def has_ended(self) -> bool:
        """Say whether it ended by itself."""

    async def is_ready(self) -> bool:
        """Say whether it has listed everything."""

    async def kill(self) -> None:
        """End it between any two of its steps; nothing that it would do then is done."""

    async def stop(self) -> int:
        """End it as Kubernetes does; return its exit code."""

    def log(self) -> str:
        """Return all that it logged."""


class ControllerThread:
    """The operator in a thread, in a loop of its own: kopf ends all tasks of its loop.

    hang_up: cuts its connections to the API server for good, so a kill is one between two of its
    requests. What it answers to drivers in its last moments is still heard, and it may tidy up in
    its own memory: a process is killed in test_controller_processes.py.
    """

    def __init__(self, platform: Platform, hang_up: Callable[[], None]) -> None:
        self._hang_up = hang_up
        self._operator = Operator(platform)
        self._port = platform.progress_port
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._main = self._loop.create_task(self._operator.run(self._stop))
        name = f"controller-{platform.namespace}"
        # Not waited for at the end: one that hangs fails its test, and must not hold up pytest.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._log = _ThreadLog(self._thread.name)
        self._thread.start()

    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    async def is_ready(self) -> bool:
        return self._operator.is_ready()

    async def kill(self) -> None:
        self._hang_up()
        self._call(self._main.cancel)
        await self._join()

    async def stop(self) -> int:
        self._call(self._stop.set)
        await self._join()
        return 1 if self._main.cancelled() or self._main.exception() else 0

    def log(self) -> str:
        return self._log.text()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._to_its_end())
        _end_connections(self._port)
        self._log.close()

    async def _to_its_end(self) -> None:
        await asyncio.wait([self._main])
        if not self._main.cancelled() and (error := self._main.exception()):
            logging.getLogger("trainshed.operator").error("the controller ended", exc_info=error)

    def _call(self, what: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # its loop is closed: it ended by itself
            self._loop.call_soon_threadsafe(what)

    async def _join(self) -> None:
        await asyncio.to_thread(self._thread.join, _PATIENCE_SECONDS)
        assert not self._thread.is_alive(), f"the controller does not end:\n{self.log()}"


def _end_connections(port: int) -> None:
    """End what was accepted on a port, as the kernel does with a process: nobody waits in vain.

    A connection that a loop accepts in its last moments is left to the collector of garbage.
    """
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # others close theirs meanwhile
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as found:
                if found.family == socket.AF_INET and found.getsockname()[1] == port:
                    found.shutdown(socket.SHUT_RDWR)


class _ThreadLog(logging.Handler):
    """What one thread logs."""

    def __init__(self, thread: str) -> None:
        super().__init__()
        self._thread = thread
        self._lines: list[str] = []
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.threadName == self._thread:
            self._lines.append(f"{record.levelname} {record.name}: {self.format(record)}")

    def text(self) -> str:
        return "\n".join(self._lines)

    def close(self) -> None:
        logging.getLogger().removeHandler(self)
        super().close()


class ControllerProcess:
    """`python -m trainshed_controller`, as in a container."""

    def __init__(self, process: asyncio.subprocess.Process, health: str, log: Path) -> None:
        self._process = process
        self._health = health
        self._file = log

    @classmethod
    async def start(cls, environment: dict[str, str], folder: Path) -> "ControllerProcess":
        """Start it; it is not ready yet. Its log is a new file in the folder."""
        log = folder / f"controller-{len(list(folder.glob('controller-*')))}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "trainshed_controller",
                env={**os.environ, **environment}, stdout=output, stderr=output, cwd=ROOT,
            )  # fmt: skip
        port = environment["TRAINSHED_CONTROLLER_HEALTH_PORT"]
        return cls(process, f"http://127.0.0.1:{port}/readyz", log)

    @property
    def pid(self) -> int:
        """Return the ID of its process."""
        return self._process.pid

    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def is_ready(self) -> bool:
        async with aiohttp.ClientSession() as session:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(self._health) as answer:
                    return answer.status == 200
        return False

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        return await self._end(signal.SIGTERM)

    def log(self) -> str:
        return self._file.read_text().rstrip("\n")

    async def _end(self, number: signal.Signals) -> int:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        return await asyncio.wait_for(self._process.wait(), _PATIENCE_SECONDS)
