"""What drivers post and are answered, and the endpoints for Kubernetes and Prometheus.

The answer is the way back: suspend, deadlines and a lost claim reach a driver without a port on it.
What is posted is untrusted text about one attempt, and no more than that.
"""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import ValidationError

from trainshed_api.names import MAX_SNAPSHOT_BYTES
from trainshed_api.snapshot import MAX_GONE, Answer, Snapshot, StopOrder
from trainshed_controller.clock import Clock
from trainshed_controller.model import Key
from trainshed_controller.release import cluster_of_attempt
from trainshed_controller.render import progress_path, progress_token
from trainshed_controller.status import open_attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_controller.cache import Cache
    from trainshed_controller.metrics import Metrics
    from trainshed_controller.model import RunView
    from trainshed_controller.relay import Relay
    from trainshed_controller.snapshots import SnapshotStore

_PATH = progress_path("{namespace}", "{name}", "{uid}", "{number:[1-9][0-9]{0,8}}")
_SUPERSEDED = StopOrder(reason="Superseded", grace_seconds=0)
_MAX_REFUSAL = 4000
# Clocks differ; what is of a later time than that would overtake all that is true.
_MAX_AHEAD_SECONDS = 600.0


@dataclass(eq=False)
class ProgressServer:
    """Takes snapshots.

    Args:
        key: what bearer tokens are made with.
        heard: where snapshots are kept.
        tell: has a key looked at.
        is_ready: whether the cache is complete; before, nobody can be told anything.
        body_seconds: within which a snapshot has to be there.
        clock: its date tells what is of a time to come.
        relay: to the replica that acts; without one this is the only one.
    """

    cache: Cache
    key: bytes
    heard: SnapshotStore
    tell: Callable[[Key], None]
    metrics: Metrics
    is_ready: Callable[[], bool]
    body_seconds: float = 10.0
    clock: Clock = field(default_factory=Clock)
    relay: Relay | None = None

    def application(self) -> web.Application:
        """Return the server's routes."""
        application = web.Application(client_max_size=MAX_SNAPSHOT_BYTES)
        application.router.add_post(_PATH, self._take)
        return application

    async def _take(self, request: web.Request) -> web.Response:
        part = request.match_info
        if not self._knows(request):
            return self._refuse(401, "the bearer token is not that of this attempt")
        if not self.is_ready():
            return self._refuse(503, "not ready")
        snapshot = await self._read(request)
        if isinstance(snapshot, web.Response):
            return snapshot
        if str(snapshot.attempt) != part["number"]:
            return self._refuse(422, "the snapshot is of another attempt")
        if self.relay and (passed := await self.relay.send(request)):
            return passed
        return self._hear(part["namespace"], part["name"], part["uid"], snapshot)

    async def _read(self, request: web.Request) -> Snapshot | web.Response:
        """Return the snapshot; the refusal of a post that holds none."""
        try:
            async with asyncio.timeout(self.body_seconds):
                snapshot = Snapshot.model_validate_json(await request.read())
        except TimeoutError:
            return self._refuse(408, f"no whole snapshot within {self.body_seconds:g} s")
        except web.HTTPRequestEntityTooLarge:
            return self._refuse(413, f"more than {MAX_SNAPSHOT_BYTES} bytes")
        except ValidationError as error:
            return self._refuse(422, _told(error))
        if snapshot.time - self.clock.now().timestamp() > _MAX_AHEAD_SECONDS:
            text = f"time: more than {_MAX_AHEAD_SECONDS:g} s ahead of the controller's clock"
            return self._refuse(422, text)
        return snapshot

    def _hear(self, namespace: str, name: str, uid: str, snapshot: Snapshot) -> web.Response:
        view = self.cache.runs.get(namespace, name)
        if view is None or (view.uid == uid and snapshot.attempt > view.status.attempt):
            # Not known here, or not yet: no reason to stop.
            return self._refuse(404, "there is no such attempt here")
        if view.uid != uid or not _is_current(view, snapshot):
            if self.relay and not self.relay.lease.is_held():
                return self._refuse(503, "another replica knows whether this attempt goes on")
            return self._answer(410, Answer(stop=_SUPERSEDED))
        if open_attempt(view.status) is not None and self.heard.put(uid, snapshot):
            self.tell(Key("run", namespace, name))
        return self._answer(200, Answer(stop=stop_order(view), gone=self._gone(view)))

    def _gone(self, view: RunView) -> tuple[str, ...]:
        """Return the workers' Pods that are gone of the cluster of the attempt under way."""
        attempt = open_attempt(view.status)
        if attempt is None:
            return ()
        job = self.cache.jobs.get(view.namespace, attempt.ray_job)
        cluster = cluster_of_attempt(job, attempt)
        gone = self.cache.gone(view.namespace, cluster) if cluster else ()
        return tuple(pod.name for pod in gone if not pod.is_head)[-MAX_GONE:]

    def _refuse(self, status: int, text: str) -> web.Response:
        self.metrics.snapshots.labels(str(status)).inc()
        refusal = web.Response(status=status, text=f"{text}\n")
        # Close refused connections, so that clients cannot hold one.
        refusal.force_close()
        return refusal

    def _knows(self, request: web.Request) -> bool:
        part = request.match_info
        wanted = progress_token(
            self.key, part["namespace"], part["name"], part["uid"], int(part["number"])
        )
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        # aiohttp keeps as surrogates what is no UTF-8.
        return hmac.compare_digest(wanted.encode(), given.encode(errors="surrogateescape"))

    def _answer(self, status: int, answer: Answer) -> web.Response:
        self.metrics.snapshots.labels(str(status)).inc()
        return web.Response(status=status, text=answer.to_line(), content_type="application/json")


def _told(error: ValidationError) -> str:
    """Return what is wrong with which fields of a snapshot, without what was in them."""
    faults = (
        f"{'.'.join(map(str, fault['loc'])) or 'the snapshot'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False, include_context=False)
    )
    return "\n".join(faults)[:_MAX_REFUSAL]


def _is_current(view: RunView, snapshot: Snapshot) -> bool:
    """Say whether the snapshot is of the attempt under way, or the last word of the newest."""
    if snapshot.attempt != view.status.attempt:
        return False
    return snapshot.state == "Ended" or open_attempt(view.status) is not None


def stop_order(view: RunView) -> StopOrder | None:
    """Return the order to stop that the attempt under way has been given, if any."""
    attempt = open_attempt(view.status)
    if attempt is None or attempt.stop_time is None or view.run is None:
        return None
    return StopOrder(reason=attempt.stop_reason, grace_seconds=view.run.spec.grace_period_seconds)


def health_application(
    metrics: Metrics, ails: Callable[[], str], is_ready: Callable[[], bool]
) -> web.Application:
    """Return /healthz, /readyz and /metrics; ails: what is stuck, empty if nothing is."""

    async def healthz(_: web.Request) -> web.Response:
        trouble = ails()
        return web.Response(status=500 if trouble else 200, text=f"{trouble or 'ok'}\n")

    async def readyz(_: web.Request) -> web.Response:
        ready = is_ready()
        return web.Response(status=200 if ready else 503, text="ok\n" if ready else "listing\n")

    async def figures(_: web.Request) -> web.Response:
        body = generate_latest(metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", figures)
    return application
