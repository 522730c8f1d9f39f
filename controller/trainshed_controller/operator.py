"""The parts put together: connect, list everything once, then watch, work and listen."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from trainshed_controller.cache import Cache
from trainshed_controller.cluster import Cluster
from trainshed_controller.controller import Controller
from trainshed_controller.errors import ApiError
from trainshed_controller.events import EventPoster
from trainshed_controller.handlers import make_registry, watch
from trainshed_controller.jobs import JobsApi
from trainshed_controller.metrics import Metrics
from trainshed_controller.observe import Observer
from trainshed_controller.port import Door, Limits, Port
from trainshed_controller.prober import Prober
from trainshed_controller.progress import ProgressServer, health_application
from trainshed_controller.queue import WorkQueue
from trainshed_controller.resync import Resync

if TYPE_CHECKING:
    from aiohttp import web

    from trainshed_controller.model import Key, RunView
    from trainshed_controller.settings import Platform

log = logging.getLogger("trainshed.operator")

_LIMITS = Limits()
_STUCK_SECONDS = 120.0
# A watch that has not told of everybody at so many LISTs in a row hears nothing any more.
_DEAF_AFTER = 3
_PATIENCE_SECONDS = 5.0
# After that what is there is listed anew: who went meanwhile is told of by no watch.
_HEARING_SECONDS = 10.0
# For the Events of what was done last; Kubernetes gives a Pod 30 s.
_PARTING_SECONDS = 3.0
# For an answer that is on its way; aiohttp's own minute would be longer than that of Kubernetes.
_ANSWER_SECONDS = 1.0
# What goes between our first LIST and that of a watch is told by nobody.
_FIRST_RESYNC_SECONDS = 10.0


class Operator:
    """One controller; its loop is its own, for kopf ends all tasks of the loop that it runs in."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._cache = Cache(platform.settings)
        self._metrics = Metrics(self._cache)
        self._complete = False
        self._untold_in_a_row = 0
        self._queue: WorkQueue | None = None
        self._controller: Controller | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; an error of any part ends it with that error.

        kopf takes SIGTERM and SIGINT for itself once it runs, and then ends without an error.
        """
        platform = self._platform
        async with contextlib.AsyncExitStack() as stack:
            cluster = await Cluster.connect(platform.kubeconfig, platform.timings.request_seconds)
            stack.push_async_callback(cluster.close)
            jobs = JobsApi(platform.settings.dashboard_url, platform.token_file)
            stack.push_async_callback(jobs.close)
            health = health_application(self._metrics, self.ails, self.is_ready)
            # A door of its own: whoever fills the other one does not end this process.
            door = Door(_LIMITS)
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
        controller.queue, self._queue, self._controller = queue, queue, controller
        self._metrics.watch(queue)
        progress = ProgressServer(
            self._cache, key, observer.snapshots, queue.add, self._metrics, self.is_ready,
            _LIMITS.body_seconds,
        )  # fmt: skip
        door = Door(_LIMITS, self._metrics.refused_connections.inc)
        host = platform.progress_host
        await _listen(stack, progress.application(), door, host, platform.progress_port)
        resync = Resync(self._cache, cluster, self._enqueue, controller.forget)
        tasks = [
            asyncio.create_task(events.run(), name="events"),
            asyncio.create_task(self._watch(), name="watch"),
            asyncio.create_task(self._work(queue, resync), name="work"),
            asyncio.create_task(stop.wait(), name="stop"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await events.drain(_PARTING_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _work(self, queue: WorkQueue, resync: Resync) -> None:
        """Decide from the moment on that everything is known."""
        await self._hear_all(resync)
        self._enqueue_all()
        self._complete = True
        log.info("watching %s", ", ".join(self._platform.namespaces))
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.run(self._platform.workers), name="queue")
            group.create_task(self._resync(resync), name="resync")

    def is_ready(self) -> bool:
        """Say whether everything was listed once."""
        return self._complete

    def ails(self) -> str:
        """Return what is stuck; empty if nothing is."""
        if self._queue and self._queue.longest_turn_seconds() > _STUCK_SECONDS:
            return f"a key has been worked on for {self._queue.longest_turn_seconds():.0f} s"
        if self._untold_in_a_row >= _DEAF_AFTER:
            return f"the last {self._untold_in_a_row} LISTs held what no watch had told"
        return ""

    async def _insist(self, cluster: Cluster) -> bytes:
        """Return the key of the bearer tokens; the Secret may come a moment later than we do."""
        while True:
            try:
                return await cluster.read_key(
                    self._platform.own_namespace, self._platform.key_secret
                )
            except ApiError as error:
                log.warning("no key yet: %s", error)
                await asyncio.sleep(self._platform.timings.retry_seconds)

    async def _hear_all(self, resync: Resync) -> None:
        """Wait until the watches told of everything; nothing is decided before."""
        for namespace in self._platform.namespaces:
            while True:
                try:
                    if await resync.wait_for_watches(namespace, _HEARING_SECONDS):
                        break
                    log.warning("the watches have not told of everything in %s yet", namespace)
                except ApiError as error:
                    log.warning("cannot list yet: %s", error)
                    await asyncio.sleep(self._platform.timings.retry_seconds)

    async def _resync(self, resync: Resync) -> None:
        """Look at everything anew from time to time: a watch may miss a deletion."""
        pause = min(_FIRST_RESYNC_SECONDS, self._platform.resync_seconds)
        while True:
            await asyncio.sleep(pause)
            pause = self._platform.resync_seconds
            try:
                untold = 0
                for namespace in self._platform.namespaces:
                    untold += await resync.compare(namespace, _PATIENCE_SECONDS)
            except ApiError as error:
                log.warning("cannot list: %s", error)
                continue
            self._untold_in_a_row = self._untold_in_a_row + 1 if untold else 0
            self._enqueue_all()

    def _enqueue_all(self) -> None:
        assert self._queue
        for view in self._cache.runs.all():
            for key in self._cache.concerned(view):
                self._queue.add(key)

    async def _watch(self) -> None:
        """Have kopf watch; it ends with an error when a watch cannot be kept up."""
        registry = make_registry(self._cache, self._enqueue, self._forget, self._cannot_read)
        await watch(registry, self._platform)

    def _enqueue(self, key: Key) -> None:
        assert self._queue
        if key.kind == "cluster":
            self._queue.add_after(key, 0.05)
        else:
            self._queue.add(key)

    def _cannot_read(self, name: str) -> None:
        self._metrics.internal_errors.inc()
        log.exception("cannot read %s", name)

    def _forget(self, view: RunView) -> None:
        assert self._controller
        self._controller.forget(view)


async def _listen(
    stack: contextlib.AsyncExitStack, application: web.Application, door: Door, host: str, port: int
) -> None:
    listening = Port(application, _LIMITS, door, _ANSWER_SECONDS)
    stack.push_async_callback(listening.close)
    await listening.open(host, port)
