"""Runs the controller as a process beside an API server, and posts snapshots as drivers do."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from hack.cluster.ports import pick_ports
from tests.control_plane.world import until
from trainshed_api.progress import Progress, Seconds
from trainshed_api.snapshot import Snapshot
from trainshed_controller.render import progress_path, progress_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY_SECRET = "benchmark-key"
_TICKS = os.sysconf("SC_CLK_TCK")
_READY_SECONDS = 60


@contextlib.asynccontextmanager
async def run_controller(kubeconfig: Path, namespace: str, log: Path) -> AsyncIterator[Process]:
    """Run the controller; it has listed everything when the block begins."""
    health, progress = pick_ports(2)
    settings = {
        "NAMESPACE": namespace,
        "HOST": "127.0.0.1",
        "HEALTH_PORT": str(health),
        "PROGRESS_PORT": str(progress),
        "PROGRESS_URL": f"http://127.0.0.1:{progress}",
        "KEY_SECRET": KEY_SECRET,
    }
    environment = {f"TRAINSHED_CONTROLLER_{name}": text for name, text in settings.items()}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "trainshed_controller"],
            env={**os.environ, "KUBECONFIG": str(kubeconfig), **environment},
            stdout=output,
            stderr=output,
        )
    try:
        async with aiohttp.ClientSession() as session:
            running = Process(process.pid, namespace, health, progress, session)
            await until(running.is_ready, _READY_SECONDS, lambda: log.read_text()[-2000:])
            yield running
    finally:
        process.terminate()
        process.wait(60)


@dataclass(frozen=True)
class Process:
    """The controller at work: where it listens, and what it costs."""

    pid: int
    namespace: str
    health: int
    progress: int
    session: aiohttp.ClientSession

    async def is_ready(self) -> bool:
        """Say whether it has listed everything."""
        with contextlib.suppress(aiohttp.ClientError):
            async with self.session.get(f"http://127.0.0.1:{self.health}/readyz") as answer:
                return answer.status == 200
        return False

    async def counter(self, name: str) -> float:
        """Return the value of one of its metrics."""
        async with self.session.get(f"http://127.0.0.1:{self.health}/metrics") as answer:
            text = await answer.text()
        found = re.search(rf"^{name} ([0-9.e+]+)$", text, re.MULTILINE)
        assert found, f"{name} is not among the metrics"
        return float(found[1])

    def cpu_seconds(self) -> float:
        """Return the processor time it has used, all of it."""
        # proc(5): fields 14 and 15 are utime and stime, in ticks
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / _TICKS

    def resident_megabytes(self) -> float:
        """Return the memory that it holds now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        assert found
        return int(found[1]) / 1024


@dataclass
class Stream:
    """A driver's snapshots, without the driver."""

    controller: Process
    key: bytes
    name: str
    uid: str
    step: int = 0
    sequence: int = 0
    began: float = field(default_factory=time.time)
    told_at: dict[int, float] = field(default_factory=dict)
    """When each step was told, seconds since 1970."""

    async def tell(self, *, ended: bool = False) -> None:
        """Post where training stands, or that it has ended well."""
        now = time.time()
        self.step, self.sequence = self.step + 10, self.sequence + 1
        self.told_at[self.step] = now
        told = Snapshot(
            attempt=1,
            time=now,
            sequence=self.sequence,
            state="Ended" if ended else "Training",
            outcome="Succeeded" if ended else None,
            exit_code=0 if ended else None,
            progress=Progress(time=now, epoch=1, epochs=1, step=self.step, steps=9999, loss=0.5),
            seconds=Seconds(training=now - self.began),
            result="result.json" if ended else None,
        )
        namespace = self.controller.namespace
        path = progress_path(namespace, self.name, self.uid, 1)
        token = progress_token(self.key, namespace, self.name, self.uid, 1)
        async with self.controller.session.post(
            f"http://127.0.0.1:{self.controller.progress}{path}",
            data=told.to_payload(),
            headers={"Authorization": f"Bearer {token}"},
        ) as answer:
            assert answer.status == 200, await answer.text()
