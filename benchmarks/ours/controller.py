"""Runs the controller as a process beside an API server, and posts snapshots as drivers do."""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from hack.cluster.ports import pick_ports
from tests.control_plane.controllers import ControllerProcess
from tests.control_plane.world import until
from trainshed_api.progress import Progress, Seconds
from trainshed_api.snapshot import Snapshot
from trainshed_controller.render import progress_path, progress_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY_SECRET = "benchmark-key"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_READY_SECONDS = 60


@contextlib.asynccontextmanager
async def run_controller(kubeconfig: Path, namespace: str, folder: Path) -> AsyncIterator[Process]:
    """Run the controller, with its log in the folder; yields when it has listed all objects."""
    health, progress = pick_ports(2)
    settings = {
        "NAMESPACE": namespace,
        "HOST": "127.0.0.1",
        "HEALTH_PORT": str(health),
        "PROGRESS_PORT": str(progress),
        "PROGRESS_URL": f"http://127.0.0.1:{progress}",
        "KEY_SECRET": KEY_SECRET,
    }
    environment = {f"TRAINSHED_CONTROLLER_{name}": value for name, value in settings.items()}
    process = await ControllerProcess.start({"KUBECONFIG": str(kubeconfig), **environment}, folder)
    try:
        await until(process.is_ready, _READY_SECONDS, lambda: process.log()[-2000:])
        async with aiohttp.ClientSession() as session:
            yield Process(process.pid, namespace, health, progress, session)
    finally:
        await process.stop()


@dataclass(frozen=True)
class Process:
    """A running controller.

    Args:
        pid: its process.
        namespace: that it watches.
        health: port of health checks and metrics.
        progress: port of snapshots.
        session: for requests to it.
    """

    pid: int
    namespace: str
    health: int
    progress: int
    session: aiohttp.ClientSession

    async def counter(self, name: str) -> float:
        """Return the value of one of its metrics."""
        async with self.session.get(f"http://127.0.0.1:{self.health}/metrics") as response:
            return float(_find(rf"^{name} ([0-9.e+]+)$", await response.text()))

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        # proc(5): fields 14 and 15 are utime and stime, in ticks
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / _TICKS_PER_SECOND

    def resident_megabytes(self) -> float:
        """Return its resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(_find(r"^VmRSS:\s+(\d+) kB", status)) / 1024


def _find(pattern: str, text: str) -> str:
    """Return the first group of a pattern that a line of the text matches."""
    match = re.search(pattern, text, re.MULTILINE)
    assert match, f"no line matches {pattern}"
    return match[1]


@dataclass
class SnapshotStream:
    """Posts the snapshots of one run's driver.

    Attributes:
        posted: when the snapshot of each step was posted, seconds since 1970.
    """

    controller: Process
    key: bytes
    name: str
    uid: str
    step: int = 0
    sequence: int = 0
    started: float = field(default_factory=time.time)
    posted: dict[int, float] = field(default_factory=dict)

    async def post(self, *, ended: bool = False) -> None:
        """Post a snapshot ten steps after the last one, or one of a successful end."""
        now = time.time()
        self.step, self.sequence = self.step + 10, self.sequence + 1
        self.posted[self.step] = now
        snapshot = Snapshot(
            attempt=1,
            time=now,
            sequence=self.sequence,
            state="Ended" if ended else "Training",
            outcome="Succeeded" if ended else None,
            exit_code=0 if ended else None,
            progress=Progress(time=now, epoch=1, epochs=1, step=self.step, steps=9999, loss=0.5),
            seconds=Seconds(training=now - self.started),
            result="result.json" if ended else None,
        )
        run = (self.controller.namespace, self.name, self.uid, 1)
        async with self.controller.session.post(
            f"http://127.0.0.1:{self.controller.progress}{progress_path(*run)}",
            data=snapshot.to_payload(),
            headers={"Authorization": f"Bearer {progress_token(self.key, *run)}"},
        ) as response:
            assert response.status == 200, await response.text()
