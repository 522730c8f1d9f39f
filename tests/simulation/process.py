"""A controller's process, put together as the operator does it; a restart makes a new one."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tests.controller.api_server import ApiServer, Wire
from tests.simulation.clock import CLOCK
from tests.simulation.port import Port
from tests.simulation.watches import Watches
from trainshed_controller.cache import Cache
from trainshed_controller.controller import Controller, Decide
from trainshed_controller.events import EventPoster
from trainshed_controller.handlers import make_handlers
from trainshed_controller.metrics import Metrics
from trainshed_controller.model import Key, Settings
from trainshed_controller.observe import Observer
from trainshed_controller.prober import Prober
from trainshed_controller.progress import ProgressServer
from trainshed_controller.queue import WorkQueue
from trainshed_controller.reflector import Reflector
from trainshed_controller.snapshots import SnapshotStore

if TYPE_CHECKING:
    from trainshed_controller.jobs import JobsApi

KEY = b"key"
_WORKERS = 8
_RESYNC_SECONDS = 300.0
_STUCK_SECONDS, _PROBE_SECONDS = 120.0, 10.0


@dataclass(frozen=True)
class Surroundings:
    """What a process is started in.

    heads: Ray's dashboards. is_stormy: whether watches break. decide: the decision about a run.
    """

    server: ApiServer
    settings: Settings
    heads: object
    chance: random.Random
    is_stormy: Callable[[], bool]
    decide: Decide


class Process:
    """Everything that a restart forgets."""

    def __init__(self, around: Surroundings, wire: Wire) -> None:
        self._around = around
        settings = around.settings
        self.cache = Cache(settings, CLOCK.monotonic)
        self.metrics = Metrics(self.cache)
        cluster = around.server.connect(wire)
        self.queue = WorkQueue(CLOCK.monotonic)
        self._entrance = _Entrance(self.queue)
        self._prober = Prober(
            cast("JobsApi", around.heads), self._entrance.add, clock=CLOCK.monotonic
        )
        observer = Observer(self.cache, cluster, self._prober, settings)
        observer.snapshots = SnapshotStore(CLOCK.monotonic)
        self._events = EventPoster(cluster.post_event)
        self.controller = Controller(
            self.cache, cluster, observer, self._events, self.queue, settings, self.metrics, KEY,
            CLOCK, around.decide,
        )  # fmt: skip
        self.is_ready = False
        progress = ProgressServer(
            self.cache, KEY, observer.snapshots, self.queue.add, self.metrics,
            lambda: self.is_ready, clock=CLOCK,
        )  # fmt: skip
        self.port = Port(progress.application())
        handlers = make_handlers(
            self.cache, self._entrance.add, self.controller.forget, self._cannot_read
        )
        self._reflectors = []
        for kind, handler in handlers.items():
            chance = random.Random(around.chance.random())
            watches = Watches(around.server, cluster, chance, around.is_stormy)
            self._reflectors.append(Reflector(watches, kind, "team", handler, chance.random))

    async def run(self) -> str:
        """Serve until cancelled; return why the kubelet ended it, or raise what it died of."""
        parts = [self._events.run(), self._work(), *(each.run() for each in self._reflectors)]
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
        for reflector in self._reflectors:
            await reflector.synced.wait()
        self.is_ready = True
        async with asyncio.TaskGroup() as group:
            act = self.controller
            group.create_task(self.queue.run(_WORKERS, act.work, act.trouble))
            while True:
                for view in self.cache.runs.all():
                    for key in self.cache.concerned(view):
                        self._entrance.add(key)
                await asyncio.sleep(_RESYNC_SECONDS)

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
        return ""


class _Entrance:
    """Brings keys into the queue in an order of their own: that of a set changes with the process
    that Python runs in."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._keys: list[Key] = []

    def add(self, key: Key) -> None:
        if not self._keys:
            asyncio.get_running_loop().call_soon(self._let_in)
        self._keys.append(key)

    def _let_in(self) -> None:
        keys, self._keys = sorted(set(self._keys)), []
        for key in keys:
            if key.kind == "cluster":
                self._queue.add_after(key, 0.05)
            else:
                self._queue.add(key)
