"""What drivers post and are answered, and the endpoints for Kubernetes and Prometheus.

The answer is the way back: suspend, deadlines and a lost claim reach a driver without a port on it.
What is posted is untrusted text about one attempt, and no more than that.
"""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import ValidationError

from trainshed_api.names import MAX_SNAPSHOT_BYTES
from trainshed_api.snapshot import Answer, Snapshot, StopOrder
from trainshed_controller.model import Key
from trainshed_controller.render import progress_token
from trainshed_controller.status import open_attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_controller.cache import Cache
    from trainshed_controller.metrics import Metrics
    from trainshed_controller.model import RunView

_PATH = "/v1/namespaces/{namespace}/trainingruns/{name}/{uid}/attempts/{number}/progress"
_SUPERSEDED = StopOrder(reason="Superseded", grace_seconds=0)
# A driver that posts faster than this is heard no better.
_SHORTEST_SECONDS = 0.2


class ProgressServer:
    """Takes snapshots.

    Args:
        key: what bearer tokens are made with.
        heard: where the last snapshot of each run is kept, by uid.
        tell: has a key looked at.
        is_ready: whether the cache is complete; before, nobody can be told anything.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # its edges, each given once
        self,
        cache: Cache,
        key: bytes,
        heard: dict[str, Snapshot],
        tell: Callable[[Key], None],
        metrics: Metrics,
        is_ready: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._key = key
        self._heard = heard
        self._tell = tell
        self._metrics = metrics
        self._is_ready = is_ready
        self._last: dict[str, float] = {}

    def application(self) -> web.Application:
        """Return the server's routes."""
        application = web.Application(client_max_size=MAX_SNAPSHOT_BYTES)
        application.router.add_post(_PATH, self._take)
        return application

    async def _take(self, request: web.Request) -> web.Response:
        part = request.match_info
        if not part["number"].isdigit() or not self._knows(request):
            return self._refuse(401, "the bearer token is not that of this attempt")
        if not self._is_ready():
            return self._refuse(503, "not ready")
        try:
            snapshot = Snapshot.model_validate_json(await request.read())
        except ValidationError as error:
            return self._refuse(422, str(error))
        if str(snapshot.attempt) != part["number"]:
            return self._refuse(422, "the snapshot is of another attempt")
        view = self._cache.runs.get(part["namespace"], part["name"])
        if view is None or view.uid != part["uid"] or not _is_current(view, snapshot):
            return self._answer(410, Answer(stop=_SUPERSEDED))
        self._keep(view, snapshot)
        return self._answer(200, Answer(stop=stop_order(view)))

    def _refuse(self, status: int, text: str) -> web.Response:
        self._metrics.snapshots.labels(str(status)).inc()
        return web.Response(status=status, text=f"{text}\n")

    def _knows(self, request: web.Request) -> bool:
        part = request.match_info
        wanted = progress_token(
            self._key, part["namespace"], part["name"], part["uid"], int(part["number"])
        )
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(wanted.encode(), given.encode())

    def _keep(self, view: RunView, snapshot: Snapshot) -> None:
        known = self._heard.get(view.uid)
        if known and known.attempt == snapshot.attempt and known.sequence > snapshot.sequence:
            return  # it was overtaken
        self._heard[view.uid] = snapshot
        changed = (
            known is None
            or known.state != snapshot.state
            or (known.progress is None and snapshot.progress is not None)
        )
        now = time.monotonic()
        if changed or now - self._last.get(view.uid, 0.0) >= _SHORTEST_SECONDS:
            self._last[view.uid] = now
            self._tell(Key("run", view.namespace, view.name))

    def _answer(self, status: int, answer: Answer) -> web.Response:
        self._metrics.snapshots.labels(str(status)).inc()
        return web.Response(status=status, text=answer.to_line(), content_type="application/json")


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
