"""kopf lists and watches, and does nothing else: the only importer of it.

Every handler puts an object into the cache and the keys that it concerns into the queue; nobody
else puts what was not asked for there. It cannot fail, and it decides nothing. What kopf would
write by itself (annotations, finalizers) is off.
"""

# ruff: noqa: ARG002  # the storages take what kopf gives them, and keep none of it

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import kopf

from trainshed_api import names
from trainshed_api.json_object import as_object
from trainshed_controller.cluster import CLUSTERS, JOBS, PODS, RAY_PODS, RUNS, open_session
from trainshed_controller.views import read_cluster, read_job, read_pod, read_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.cache import Cache, Shelf
    from trainshed_controller.cluster import Kind
    from trainshed_controller.model import ClusterView, Key, PodView, RayJobView, RunView
    from trainshed_controller.resync import Follow
    from trainshed_controller.settings import Platform, Timings


V = TypeVar("V", "RunView", "RayJobView", "ClusterView", "PodView")


class _Name(NamedTuple):
    """Which state of which object a watch tells of."""

    namespace: str
    name: str
    uid: str
    resource_version: str


# kopf gives what it started 5 s to end, and cancels it then (kopf._core.reactor.running).
_FAREWELL_SECONDS = 7.0


class _NoDiffBase(kopf.DiffBaseStorage):
    """Keeps nothing: without handlers that compare, kopf needs no copy of every object."""

    def build(self, *, body: object, extra_fields: object = None) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: object) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: object, patch: object, essence: object) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """Keeps nothing, as above."""

    def fetch(self, *, key: object, body: object) -> None:
        return None

    def store(self, *, key: object, record: object, body: object, patch: object) -> None:
        return None

    def purge(self, *, key: object, body: object, patch: object) -> None:
        return None

    def touch(self, *, body: object, patch: object, value: object) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def make_settings(timings: Timings) -> kopf.OperatorSettings:
    """Return settings with which kopf only reads."""
    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # no right to list CRDs or namespaces
    settings.peering.standalone = True
    # kopf waits 5 minutes for a LIST that nobody answers, and is deaf until then.
    settings.networking.request_timeout = timings.request_seconds
    settings.watching.inactivity_timeout = timings.silence_seconds
    # Objects of 1.4 MB may be in a page, each thirty times as large when it is parsed.
    settings.watching.chunk_size = 5
    settings.watching.label_selectors["pods"] = RAY_PODS
    settings.queueing.worker_limit = 50
    # A limit of workers with the default idle time of 5 s would be 10 objects a second.
    settings.queueing.idle_timeout = 0.05
    return settings


def make_followers(
    cache: Cache,
    enqueue: Callable[[Key], None],
    forget: Callable[[RunView], None],
    on_error: Callable[[str], None],
) -> dict[Kind, Follow]:
    """Return by kind what is done with an event of a watch.

    on_error: told, in the handling of that error, whose object could not be read.
    """

    def follow(
        shelf: Shelf[V],
        read: Callable[[JsonObject], V],
        concerned: Callable[[V], set[Key]],
        went: Callable[[V], None],
    ) -> Follow:
        def keep(raw: JsonObject) -> set[Key]:
            view = read(raw)
            keys = concerned(view)
            replaced = shelf.get(view.namespace, view.name)
            if shelf.put(view) and replaced and replaced.uid != view.uid:
                went(replaced)  # created again under its name, and told before its deletion
            return keys | concerned(view)

        def remove(name: _Name) -> set[Key]:
            known = shelf.get(name.namespace, name.name)
            keys = concerned(known) if known else set()
            if gone := shelf.remove(name.namespace, name.name, name.uid):
                went(gone)
            return keys

        # A coroutine: kopf gives plain functions a thread, and cache and queue belong to the loop.
        async def handle(event: Mapping[str, object]) -> None:
            raw = event["object"]
            assert isinstance(raw, dict)
            name = _name_of(as_object(raw.get("metadata")))
            try:
                if event["type"] == "DELETED":
                    keys = remove(name)
                elif shelf.knows(*name):
                    return  # most of what a watch tells is the echo of our own writes
                else:
                    keys = keep(raw)
            except Exception:  # one object, whatever it is, keeps no other from being seen
                on_error(f"{name.namespace}/{name.name}")
                shelf.skip(name.namespace, name.name, name.uid)
                return
            for key in sorted(keys):  # in one order, so that what happened can happen again
                enqueue(key)

        return handle

    def read_known_pod(raw: JsonObject) -> PodView:
        name = _name_of(as_object(raw.get("metadata")))
        return read_pod(raw, cache.pods.get(name.namespace, name.name))

    return {
        RUNS: follow(cache.runs, read_run, cache.concerned, forget),
        JOBS: follow(cache.jobs, read_job, cache.concerned, lambda _: None),
        CLUSTERS: follow(cache.clusters, read_cluster, cache.concerned, lambda _: None),
        PODS: follow(cache.pods, read_known_pod, cache.concerned, cache.departed.note),
    }


def make_registry(followers: Mapping[Kind, Follow]) -> kopf.OperatorRegistry:
    """Return the handlers: one for each kind that is watched."""
    registry = kopf.OperatorRegistry()

    def hand_on(follow: Follow) -> Callable[..., Awaitable[None]]:
        async def handle(event: Mapping[str, object], **_: object) -> None:
            await follow(event)

        return handle

    on = kopf.on.event
    on(names.GROUP, names.VERSION, names.PLURAL, registry=registry, id="runs")(
        hand_on(followers[RUNS])
    )
    on("ray.io", "v1", "rayjobs", registry=registry, id="jobs")(hand_on(followers[JOBS]))
    on("ray.io", "v1", "rayclusters", registry=registry, id="clusters")(
        hand_on(followers[CLUSTERS])
    )
    on("", "v1", "pods", registry=registry, id="pods")(hand_on(followers[PODS]))
    return registry


def _name_of(metadata: JsonObject) -> _Name:
    parts = (metadata.get(part) for part in ("namespace", "name", "uid", "resourceVersion"))
    return _Name(*map(str, parts))


async def watch(registry: kopf.OperatorRegistry, platform: Platform) -> None:
    """Watch until cancelled; returns, or raises, where a watch cannot be kept up.

    kopf does not always come to its end: a watcher that it cancels in the middle of a request goes
    on, and waits for credentials that nobody gives it any more. So its own cleanup is the sign.
    """
    is_ending = asyncio.Event()

    async def note_the_end(**_: object) -> None:
        is_ending.set()

    kopf.on.cleanup(registry=registry, id="the end")(note_the_end)
    watching = asyncio.create_task(_watch(registry, platform), name="kopf")
    ending = asyncio.create_task(is_ending.wait(), name="end of kopf")
    try:
        await asyncio.wait([watching, ending], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([watching], timeout=_FAREWELL_SECONDS)
        if watching.done():
            await watching
    finally:
        watching.cancel()
        ending.cancel()


async def _watch(registry: kopf.OperatorRegistry, platform: Platform) -> None:
    kubeconfig = platform.kubeconfig
    async with contextlib.AsyncExitStack() as stack:
        # As the client does (cluster.py): a file that is named, else the Pod's own account.
        login = _login_with(kubeconfig, stack) if kubeconfig else kopf.login_with_service_account
        kopf.on.login(registry=registry)(login)
        await kopf.operator(
            registry=registry,
            settings=make_settings(platform.timings),
            namespaces=platform.namespaces,
            standalone=True,
        )


def _login_with(
    kubeconfig: Path, stack: contextlib.AsyncExitStack
) -> Callable[..., Awaitable[kopf.AiohttpSession]]:
    # kopf's own takes the file from the environment, which is that of the whole process, and leaves
    # sessions open where it ends by an error.
    async def login(**_: object) -> kopf.AiohttpSession:
        server, session = await open_session(kubeconfig)
        stack.push_async_callback(session.close)
        return kopf.AiohttpSession(server=server, aiohttp_session=session)

    return login
