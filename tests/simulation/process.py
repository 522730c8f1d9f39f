"""A controller's process, put together as the operator does it; a restart makes a new one."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tests.controller.api_server import ApiServer, Wire
from tests.simulation.clock import CLOCK
from tests.simulation.feed import Feed
from tests.simulation.port import Port
from trainshed_controller.cache import Cache
from trainshed_controller.controller import Controller
from trainshed_controller.errors import ApiError
from trainshed_controller.events import EventPoster
from trainshed_controller.handlers import make_followers
from trainshed_controller.metrics import Metrics
from trainshed_controller.model import Key, Settings
from trainshed_controller.observe import Observer
from trainshed_controller.prober import Prober
from trainshed_controller.progress import ProgressServer
from trainshed_controller.queue import WorkQueue
from trainshed_controller.resync import Resync
from trainshed_controller.snapshots import SnapshotStore

if TYPE_CHECKING:
    from trainshed_controller.jobs import JobsApi

KEY = b"key"
_WORKERS = 8
_RESYNC_SECONDS, _FIRST_RESYNC_SECONDS, _PATIENCE_SECONDS = 300.0, 10.0, 5.0
_HEARING_SECONDS, _DEAF_AFTER = 10.0, 3
_STUCK_SECONDS, _PROBE_SECONDS = 120.0, 10.0


@dataclass(frozen=True)
class Surroundings:
    """What a process is started in.

    heads: Ray's dashboards. is_stormy: whether watches break.
    """

    server: ApiServer
    settings: Settings
    heads: object
    chance: random.Random
    is_stormy: Callable[[], bool]


class Process:
    """Everything that a restart forgets."""

    def __init__(self, around: Surroundings, wire: Wire) -> None:
        self._around = around
        settings = around.settings
        self.cache = Cache(settings, CLOCK.monotonic)
        self.metrics = Metrics(self.cache)
        cluster = around.server.connect(wire)
        self._entrance = _Entrance()
        self._prober = Prober(
            cast("JobsApi", around.heads), self._entrance.add, clock=CLOCK.monotonic
        )
        observer = Observer(self.cache, cluster, self._prober, settings)
        observer.snapshots = SnapshotStore(CLOCK.monotonic)
        self._events = EventPoster(cluster.post_event)
        self.controller = Controller(
            self.cache, cluster, observer, self._events, settings, self.metrics, KEY, CLOCK
        )
        self.queue = WorkQueue(self.controller.work, self.controller.trouble, CLOCK.monotonic)
        self.controller.queue = self._entrance.queue = self.queue
        self.is_ready = False
        progress = ProgressServer(
            self.cache, KEY, observer.snapshots, self.queue.add, self.metrics,
            lambda: self.is_ready, clock=CLOCK,
        )  # fmt: skip
        self.port = Port(progress.application())
        self._followers = make_followers(
            self.cache, self._entrance.add, self.controller.forget, self._cannot_read
        )
        self._resync = Resync(self.cache, cluster, self._followers)

    async def run(self) -> str:
        """Serve until cancelled; return why the kubelet ended it, or raise what it died of."""
        parts = [self._events.run(), self._work(), *(feed.run() for feed in self._feeds())]
        tasks = [asyncio.create_task(part) for part in (*parts, self._probe())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task in done:
                    return str(task.result())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._prober.close()
        raise AssertionError("nothing ended")

    async def _work(self) -> None:
        await self._hear_all()
        self._look_at_all()
        self.is_ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(_WORKERS))
            group.create_task(self._resync_often())

    async def _hear_all(self) -> None:
        while True:
            try:
                if await self._resync.wait_for_watches("team", _HEARING_SECONDS):
                    return
            except ApiError:
                await asyncio.sleep(1.0)

    async def _resync_often(self) -> None:
        pause = _FIRST_RESYNC_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = _RESYNC_SECONDS
            try:
                await self._resync.compare("team", _PATIENCE_SECONDS)
            except ApiError:
                continue
            self._look_at_all()

    def _look_at_all(self) -> None:
        for view in self.cache.runs.all():
            for key in self.cache.concerned(view):
                self._entrance.add(key)

    def _feeds(self) -> Iterator[Feed]:
        for kind, follow in self._followers.items():
            chance = random.Random(self._around.chance.random())
            around = self._around
            yield Feed(around.server, kind[1], follow, chance, around.is_stormy)

    def _cannot_read(self, name: str) -> None:
        logging.getLogger("trainshed.controller").exception("cannot read %s", name)

    async def _probe(self) -> str:
        """Look after it as the kubelet does; return what ails it."""
        failures = 0
        while failures < 3:
            await asyncio.sleep(_PROBE_SECONDS)
            failures = failures + 1 if self._ails() else 0
        return self._ails()

    def _ails(self) -> str:
        if self.queue.longest_turn_seconds() > _STUCK_SECONDS:
            return "a key is worked on for too long"
        if self._resync.deaf_for >= _DEAF_AFTER:
            return "its watches are deaf"
        return ""


class _Entrance:
    """Brings keys into the queue in an order of their own: that of a set changes with the process
    that Python runs in."""

    queue: WorkQueue

    def __init__(self) -> None:
        self._keys: list[Key] = []

    def add(self, key: Key) -> None:
        if not self._keys:
            asyncio.get_running_loop().call_soon(self._let_in)
        self._keys.append(key)

    def _let_in(self) -> None:
        keys, self._keys = sorted(set(self._keys)), []
        for key in keys:
            if key.kind == "cluster":
                self.queue.add_after(key, 0.05)
            else:
                self.queue.add(key)
