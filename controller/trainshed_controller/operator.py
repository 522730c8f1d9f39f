"""The parts put together: connect, list everything once, then watch, work and listen.

kopf is the frame: it heeds signals, starts the parts and ends them. It watches nothing itself,
because its watches end the process when the API server refuses them for a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import ssl
from typing import TYPE_CHECKING

import aiohttp
import kopf

from trainshed_controller.cache import Cache
from trainshed_controller.cluster import Cluster
from trainshed_controller.connection import Connection, configure
from trainshed_controller.controller import Controller
from trainshed_controller.errors import ApiError
from trainshed_controller.events import EventPoster
from trainshed_controller.handlers import make_handlers
from trainshed_controller.jobs import JobsApi
from trainshed_controller.lease import Lease
from trainshed_controller.metrics import Metrics
from trainshed_controller.observe import Observer
from trainshed_controller.port import HEALTH_LIMITS, Door, Limits, Port
from trainshed_controller.prober import Prober
from trainshed_controller.progress import ProgressServer, health_application
from trainshed_controller.queue import WorkQueue
from trainshed_controller.reflector import Reflector
from trainshed_controller.relay import Relay
from trainshed_controller.served import wait_for_crds
from trainshed_controller.webhook import Webhook

if TYPE_CHECKING:
    from aiohttp import web

    from trainshed_controller.settings import Platform

log = logging.getLogger("trainshed.operator")

_LIMITS = Limits()
_STUCK_SECONDS = 120.0
# For the Events of what was done last; Kubernetes gives a Pod 30 s.
_PARTING_SECONDS = 3.0
# For a write that another holder sent last.
_SETTLE_SECONDS = 1.0
# For an answer that is on its way; aiohttp's own minute would be longer than that of Kubernetes.
_ANSWER_SECONDS = 1.0
# Between kopf's requests at its start; there is no last one.
_KOPF_PAUSE_SECONDS = 5.0


class Operator:
    """One controller; its loop is its own, for kopf ends all tasks of the loop that it runs in."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._cache = Cache(platform.settings)
        self._metrics = Metrics(self._cache)
        self._complete = asyncio.Event()
        self._queue = WorkQueue()
        self._metrics.watch(self._queue)
        self._serving: asyncio.Task[None] | None = None
        self._sessions = contextlib.AsyncExitStack()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until a signal or `stop`; an error of any part ends it with that error."""
        registry = kopf.OperatorRegistry()
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.scanning.disabled = True  # no right to list CRDs or namespaces
        settings.networking.request_timeout = self._platform.timings.request_seconds
        settings.networking.error_backoffs = itertools.repeat(_KOPF_PAUSE_SECONDS)

        async def start(**_: object) -> None:
            self._serving = asyncio.create_task(self._serve(), name="serve")
            self._serving.add_done_callback(lambda _: stop.set())

        async def end(**_: object) -> None:
            assert self._serving
            self._serving.cancel()
            await asyncio.wait([self._serving])

        kopf.on.startup(registry=registry)(start)
        kopf.on.cleanup(registry=registry)(end)
        kopf.on.login(registry=registry)(self._login)
        async with self._sessions:
            await kopf.operator(
                registry=registry,
                settings=settings,
                namespaces=[self._platform.namespace],
                standalone=True,
                stop_flag=stop,
            )
        if self._serving and not self._serving.cancelled():
            self._serving.result()

    async def _login(self, **_: object) -> kopf.AiohttpSession:
        """Return a session for what kopf asks at its start; it repeats what is refused."""
        known = await configure(self._platform.kubeconfig)
        secure = ssl.create_default_context(cafile=known.ssl_ca_cert)
        if known.cert_file:
            secure.load_cert_chain(known.cert_file, known.key_file)

        async def insist(
            request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            while True:
                if token := (await configure(self._platform.kubeconfig)).api_key.get("BearerToken"):
                    request.headers["Authorization"] = token
                answer = await send(request)
                if answer.ok:
                    return answer
                answer.close()
                await asyncio.sleep(self._platform.timings.retry_seconds)

        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=secure if known.verify_ssl else False),
            middlewares=[insist],
        )
        self._sessions.push_async_callback(session.close)
        return kopf.AiohttpSession(server=known.host, aiohttp_session=session)

    async def _serve(self) -> None:
        platform = self._platform
        async with contextlib.AsyncExitStack() as stack:
            cluster = await Cluster.connect(platform.kubeconfig, platform.timings)
            stack.push_async_callback(cluster.close)
            health = health_application(self._metrics, self.ails, self.is_ready)
            # A separate port: overloading the other one must not fail the health check.
            door = Door(HEALTH_LIMITS)
            await _listen(stack, health, door, platform.host, platform.health_port)
            key = await self._insist(cluster)
            # A connection of its own: a renewal waits for no other request.
            renewing = await Connection.connect(platform.kubeconfig, platform.timings)
            stack.push_async_callback(renewing.close)
            me = f"{platform.identity}/{platform.progress_address}"
            lease = Lease(renewing, platform.namespace, platform.lease, me)
            cluster.may_write = self._metrics.leads = lease.is_held
            controller = await self._set_up(stack, cluster, lease, key)
            webhook = await self._webhook(stack)
            if webhook:
                controller.tell = webhook.tell
            await self._follow(cluster, controller, lease, webhook)

    async def _set_up(
        self, stack: contextlib.AsyncExitStack, cluster: Cluster, lease: Lease, key: bytes
    ) -> Controller:
        """Return what acts; drivers are listened to from then on."""
        platform, settings = self._platform, self._platform.settings
        jobs = JobsApi(settings.dashboard_url, platform.ray_token_file, settings.default_cluster)
        stack.push_async_callback(jobs.close)
        prober = Prober(jobs, self._queue.enqueue)
        stack.push_async_callback(prober.close)
        observer = Observer(self._cache, cluster, prober, settings)
        events = EventPoster(cluster.post_event)
        controller = Controller(
            self._cache, cluster, observer, events, self._queue, settings, self._metrics, key
        )
        progress = ProgressServer(
            self._cache, key, observer.snapshots, self._queue.add, self._metrics, self.is_ready,
            _LIMITS.body_seconds, relay=Relay(jobs.session, lease),
        )  # fmt: skip
        door = Door(_LIMITS, self._metrics.refused_connections.inc)
        await _listen(stack, progress.application(), door, platform.host, platform.progress_port)
        return controller

    async def _follow(
        self, cluster: Cluster, controller: Controller, lease: Lease, webhook: Webhook | None
    ) -> None:
        """Watch, and act while the Lease is held."""
        events = controller.events
        handlers = make_handlers(
            self._cache, self._queue.enqueue, controller.forget, self._cannot_read
        )
        reflectors = [
            Reflector(cluster, kind, self._platform.namespace, handler)
            for kind, handler in handlers.items()
        ]
        # Before everything is known another replica can do more with the Lease. It is given
        # back last: Events are written by its holder alone.
        async with lease.renewing(self._complete), asyncio.TaskGroup() as beside:
            posting = beside.create_task(events.run(), name="events")
            try:
                async with asyncio.TaskGroup() as group:
                    for reflector in reflectors:
                        group.create_task(reflector.run(), name="reflector")
                    if webhook:
                        group.create_task(webhook.run(), name="webhook")
                    leading = self._lead(cluster, controller, lease, reflectors)
                    group.create_task(leading, name="lead")
            finally:
                await events.drain(_PARTING_SECONDS)
                posting.cancel()

    async def _webhook(self, stack: contextlib.AsyncExitStack) -> Webhook | None:
        """Return what posts conditions; None if the release has no Secret for it."""
        platform = self._platform
        if platform.webhook_url_file is None:
            return None
        session = await stack.enter_async_context(aiohttp.ClientSession())
        form, kinds = platform.webhook_format, platform.webhook_kinds
        return Webhook(platform.webhook_url_file, form, kinds, session, self._metrics)

    async def _lead(
        self,
        cluster: Cluster,
        controller: Controller,
        lease: Lease,
        reflectors: list[Reflector],
    ) -> None:
        """Act while the Lease is held, from the moment on that everything is known."""
        for reflector in reflectors:
            await reflector.synced.wait()
        await wait_for_crds(cluster)
        self._complete.set()
        while True:
            await lease.wait(until_held=True)
            if lease.was_of_another:
                # What is on its way from the last holder arrives by then. Watches may hang on the
                # API server that was lost with it, so they are not relied on.
                await asyncio.sleep(_SETTLE_SECONDS)
                await asyncio.gather(*(reflector.list_again() for reflector in reflectors))
            log.info("watching %s", self._platform.namespace)
            controller.begin_term()
            work = asyncio.create_task(self._work(controller), name="work")
            lost = asyncio.create_task(lease.wait(until_held=False), name="lost")
            try:
                await asyncio.wait([work, lost], return_when=asyncio.FIRST_COMPLETED)
            finally:
                lost.cancel()
                work.cancel()
                await asyncio.wait([work])
            if not work.cancelled():
                work.result()

    async def _work(self, controller: Controller) -> None:
        workers, queue = self._platform.workers, self._queue
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.run(workers, controller.work, controller.trouble), name="queue")
            while True:
                self._enqueue_all()
                await asyncio.sleep(self._platform.resync_seconds)

    def is_ready(self) -> bool:
        """Say whether everything was listed once."""
        return self._complete.is_set()

    def ails(self) -> str:
        """Return what is stuck; empty if nothing is."""
        seconds = self._queue.longest_turn_seconds()
        return f"a key has been worked on for {seconds:.0f} s" if seconds > _STUCK_SECONDS else ""

    async def _insist(self, cluster: Cluster) -> bytes:
        """Return the key of the bearer tokens; the Secret may come a moment later than we do."""
        platform = self._platform
        while True:
            try:
                return await cluster.read_key(platform.namespace, platform.key_secret)
            except ApiError as error:
                log.warning("no key yet: %s", error)
            except Exception:  # a fault of ours in one round; the next one may go well
                self._metrics.internal_errors.inc()
                log.exception("no key yet")
            await asyncio.sleep(platform.timings.retry_seconds)

    def _enqueue_all(self) -> None:
        for view in self._cache.runs.all():
            for key in self._cache.concerned(view):
                self._queue.enqueue(key)

    def _cannot_read(self, name: str) -> None:
        self._metrics.internal_errors.inc()
        log.exception("cannot read %s", name)


async def _listen(
    stack: contextlib.AsyncExitStack, application: web.Application, door: Door, host: str, port: int
) -> None:
    listening = Port(application, _LIMITS, door, _ANSWER_SECONDS)
    stack.push_async_callback(listening.close)
    await listening.open(host, port)
