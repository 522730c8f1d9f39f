"""The parts put together: connect, list everything once, then watch, work and listen."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from typing import TYPE_CHECKING, TypeVar

from trainshed_controller.cache import Cache
from trainshed_controller.cluster import Cluster
from trainshed_controller.controller import Controller
from trainshed_controller.errors import ApiError
from trainshed_controller.events import EventPoster
from trainshed_controller.handlers import make_followers, make_registry, watch
from trainshed_controller.jobs import JobsApi
from trainshed_controller.metrics import Metrics
from trainshed_controller.observe import Observer
from trainshed_controller.port import HEALTH_LIMITS, Door, Limits, Port
from trainshed_controller.prober import Prober
from trainshed_controller.progress import ProgressServer, health_application
from trainshed_controller.queue import WorkQueue
from trainshed_controller.resync import Resync

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from aiohttp import web

    from trainshed_controller.model import Key
    from trainshed_controller.settings import Platform

log = logging.getLogger("trainshed.operator")

T = TypeVar("T")

_LIMITS = Limits()
_STUCK_SECONDS = 120.0
# A watch that missed objects at this many LISTs in a row is broken.
_DEAF_AFTER = 3
# A watch reports ten thousand objects in half a minute.
_DEAF_SECONDS = 600.0
_PATIENCE_SECONDS = 5.0
# Then list again: a watch does not report objects deleted while it was disconnected.
_HEARING_SECONDS = 10.0
# For the Events of what was done last; Kubernetes gives a Pod 30 s.
_PARTING_SECONDS = 3.0
# For tasks of kopf, which may not end; the loop's own end cancels them once more.
_ENDING_SECONDS = 5.0
# For an answer that is on its way; aiohttp's own minute would be longer than that of Kubernetes.
_ANSWER_SECONDS = 1.0
# No watch reports objects that are deleted between our first LIST and its own.
_FIRST_RESYNC_SECONDS = 10.0


class EndedError(Exception):
    """The controller ended although nobody told it to."""


def heed_signals(stop: asyncio.Event) -> None:
    """Have SIGTERM and SIGINT end this process in order, if they come to this thread."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)


class Operator:
    """One controller; its loop is its own, for kopf ends all tasks of the loop that it runs in."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._cache = Cache(platform.settings)
        self._metrics = Metrics(self._cache)
        self._complete = False
        self._began = 0.0
        self._resync: Resync | None = None
        self._queue: WorkQueue | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; an error of any part ends it with that error."""
        platform = self._platform
        async with contextlib.AsyncExitStack() as stack:
            cluster = await Cluster.connect(platform.kubeconfig, platform.timings.request_seconds)
            stack.push_async_callback(cluster.close)
            jobs = JobsApi(platform.settings.dashboard_url, platform.token_file)
            stack.push_async_callback(jobs.close)
            health = health_application(self._metrics, self.ails, self.is_ready)
            # A separate port: overloading the other one must not fail the health check.
            door = Door(HEALTH_LIMITS)
            await _listen(stack, health, door, platform.progress_host, platform.health_port)
            await self._serve(cluster, jobs, stop, stack)

    async def _serve(
        self,
        cluster: Cluster,
        jobs: JobsApi,
        stop: asyncio.Event,
        stack: contextlib.AsyncExitStack,
    ) -> None:
        platform = self._platform
        key = await self._insist(cluster)
        prober = Prober(jobs, self._enqueue)
        stack.push_async_callback(prober.close)
        observer = Observer(self._cache, cluster, prober, platform.settings)
        events = EventPoster(cluster.post_event)
        controller = Controller(
            self._cache, cluster, observer, events, platform.settings, self._metrics, key
        )
        queue = WorkQueue(controller.work, controller.trouble)
        controller.queue, self._queue = queue, queue
        self._metrics.watch(queue)
        progress = ProgressServer(
            self._cache, key, observer.snapshots, queue.add, self._metrics, self.is_ready,
            _LIMITS.body_seconds,
        )  # fmt: skip
        door = Door(_LIMITS, self._metrics.refused_connections.inc)
        host = platform.progress_host
        await _listen(stack, progress.application(), door, host, platform.progress_port)
        followers = make_followers(self._cache, self._enqueue, controller.forget, self._cannot_read)
        resync = self._resync = Resync(self._cache, cluster, followers)
        # kopf looks once which kinds are served, and never hears of one that comes later.
        await self._until_served(resync)
        self._began = asyncio.get_running_loop().time()
        tasks = [
            asyncio.create_task(events.run(), name="events"),
            asyncio.create_task(watch(make_registry(followers), platform), name="watch"),
            asyncio.create_task(self._work(queue, resync, stop), name="work"),
            asyncio.create_task(stop.wait(), name="stop"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await events.drain(_PARTING_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_ENDING_SECONDS)
        for task in done:
            task.result()
        if not stop.is_set():
            raise EndedError("a watch cannot be kept up; kopf said why")

    async def _work(self, queue: WorkQueue, resync: Resync, stop: asyncio.Event) -> None:
        """Decide from the moment on that everything is known."""
        await self._hear_all(resync)
        heed_signals(stop)  # kopf took them when it began
        self._enqueue_all()
        self._complete = True
        log.info("watching %s", ", ".join(self._platform.namespaces))
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.run(self._platform.workers), name="queue")
            group.create_task(self._compare_often(resync), name="resync")

    def is_ready(self) -> bool:
        """Say whether everything was listed once."""
        return self._complete

    def ails(self) -> str:
        """Return what is stuck; empty if nothing is."""
        if self._queue and self._queue.longest_turn_seconds() > _STUCK_SECONDS:
            return f"a key has been worked on for {self._queue.longest_turn_seconds():.0f} s"
        if self._resync and self._resync.deaf_for >= _DEAF_AFTER:
            return f"the last {self._resync.deaf_for} LISTs held what a watch had not told"
        if not self._complete and self._began and self._waited() > _DEAF_SECONDS:
            return f"the watches have not told of everything for {self._waited():.0f} s"
        return ""

    def _waited(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    async def _insist(self, cluster: Cluster) -> bytes:
        """Return the key of the bearer tokens; the Secret may come a moment later than we do."""
        platform = self._platform
        while True:
            reading = cluster.read_key(platform.own_namespace, platform.key_secret)
            if key := await self._try(reading, "no key yet"):
                return key
            await asyncio.sleep(platform.timings.retry_seconds)

    async def _until_served(self, resync: Resync) -> None:
        for namespace in self._platform.namespaces:
            while await self._try(resync.list_all(namespace), "cannot list yet") is None:
                await asyncio.sleep(self._platform.timings.retry_seconds)

    async def _hear_all(self, resync: Resync) -> None:
        """Wait until the watches told of everything; nothing is decided before."""
        for namespace in self._platform.namespaces:
            while True:
                hearing = resync.wait_for_watches(namespace, _HEARING_SECONDS)
                if await self._try(hearing, "cannot list yet"):
                    break
                await asyncio.sleep(self._platform.timings.retry_seconds)

    async def _try(self, work: Awaitable[T], trouble: str) -> T | None:
        """Return its result; log any error, which does not end this process."""
        try:
            return await work
        except ApiError as error:
            log.warning("%s: %s", trouble, error)
        except Exception:  # a fault of ours in one round; the next one may go well
            self._metrics.internal_errors.inc()
            log.exception("%s", trouble)
        return None

    async def _compare_often(self, resync: Resync) -> None:
        """Requeue everything from time to time, because a watch may miss a deletion."""
        pause = min(_FIRST_RESYNC_SECONDS, self._platform.resync_seconds)
        while True:
            await asyncio.sleep(pause)
            pause = self._platform.resync_seconds
            for namespace in self._platform.namespaces:
                comparing = resync.compare(namespace, _PATIENCE_SECONDS)
                await self._try(comparing, "cannot compare")
            self._enqueue_all()

    def _enqueue_all(self) -> None:
        assert self._queue
        for view in self._cache.runs.all():
            for key in self._cache.concerned(view):
                self._queue.add(key)

    def _enqueue(self, key: Key) -> None:
        assert self._queue
        if key.kind == "cluster":
            self._queue.add_after(key, 0.05)
        else:
            self._queue.add(key)

    def _cannot_read(self, name: str) -> None:
        self._metrics.internal_errors.inc()
        log.exception("cannot read %s", name)


async def _listen(
    stack: contextlib.AsyncExitStack, application: web.Application, door: Door, host: str, port: int
) -> None:
    listening = Port(application, _LIMITS, door, _ANSWER_SECONDS)
    stack.push_async_callback(listening.close)
    await listening.open(host, port)
