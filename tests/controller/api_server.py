"""An API server in this process: what the controller's client sends is answered as it would be.

Objects have resourceVersions, uids, generations and finalizers; merge patches and deletions heed
what they are on condition of. Nothing is validated. Whoever wants to know of changes is told of
each one; a test that plays a watch says when and whether the controller hears of it.
"""

import asyncio
import copy
import json
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from trainshed_api.json_object import JsonObject, as_object
from trainshed_controller.cluster import Cluster
from trainshed_controller.connection import Kind
from trainshed_controller.errors import ExpiredError
from trainshed_controller.settings import Timings

if TYPE_CHECKING:
    from kubernetes.aio import client
    from pydantic import JsonValue

_PATH = re.compile(
    r"/(?P<group>api[^?]*?)/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<part>status))?"
)

Place = tuple[str, str, str]
"""Plural, namespace, name."""
REQUEST_SECONDS = 5.0


_START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Refused(Exception):  # noqa: N818  # an answer, no fault
    """An answer that is no success."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True)
class Request:
    """What somebody asked for."""

    method: str
    path: str
    body: JsonObject
    query: dict[str, str] = field(default_factory=dict)


class Change(NamedTuple):
    """What a watch tells; nobody may change the object, which is the server's own."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    plural: str
    raw: JsonObject


@dataclass
class Answer:
    """What the client's own answers have that the controller uses."""

    status: int
    text: bytes
    headers: dict[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        """Return the body."""
        return self.text


Wire = Callable[[Request], Awaitable[Answer]]
"""Brings a request to the server, and the answer back, or not."""


@dataclass
class ApiServer:
    """Objects by place.

    Attributes:
        clock: the server's.
        asked: the last requests, in order.
        listeners: told of each change, in order, at once.
    """

    clock: Callable[[], datetime] = lambda: _START
    asked: deque[Request] = field(default_factory=lambda: deque(maxlen=1000))
    listeners: list[Callable[[Change], None]] = field(default_factory=list)
    history: deque[Change] = field(default_factory=lambda: deque(maxlen=1000))
    """What a watch may begin at."""
    _objects: dict[Place, JsonObject] = field(default_factory=dict)
    _version: int = 0
    _count: int = 0

    # ---------------------------------------------------------------- for the test

    def connect(self, wire: Wire | None = None) -> Cluster:
        """Return a connection as the controller has one.

        wire: what is between the two; nothing without it.
        """
        known = cast("client.ApiClient", _Client(wire or self._answer_at_once))
        return Cluster(known, Timings(request_seconds=REQUEST_SECONDS))

    async def _answer_at_once(self, request: Request) -> Answer:
        return self.respond(request)

    def get(self, plural: str, name: str, namespace: str = "team") -> JsonObject | None:
        """Return a copy of an object."""
        return copy.deepcopy(self._objects.get((plural, namespace, name)))

    def peek(self, plural: str, name: str, namespace: str = "team") -> JsonObject | None:
        """Return an object itself, only to be looked at."""
        return self._objects.get((plural, namespace, name))

    def peek_all(self, plural: str, namespace: str = "team") -> list[JsonObject]:
        """Return all objects of a kind, only to be looked at."""
        return [raw for place, raw in self._objects.items() if place[:2] == (plural, namespace)]

    def names(self, plural: str, namespace: str = "team") -> list[str]:
        """Return the names of all objects of a kind."""
        return sorted(
            name for kind, space, name in self._objects if (kind, space) == (plural, namespace)
        )

    def put(self, plural: str, raw: JsonObject) -> JsonObject:
        """Create an object, or change it as nobody's client does; return it as it is kept."""
        metadata = as_object(raw["metadata"])
        place = plural, str(metadata.get("namespace", "team")), str(metadata["name"])
        known = as_object(self._objects.get(place, {}))
        return copy.deepcopy(self._keep(place, known, copy.deepcopy(raw)))

    def drop(self, plural: str, name: str, namespace: str = "team") -> None:
        """Remove an object at once."""
        raw = self._objects.pop((plural, namespace, name), None)
        self._version += 1
        if raw is None:
            return
        last = as_object(raw["metadata"]) | {"resourceVersion": str(self._version)}
        self._tell(Change("DELETED", plural, raw | {"metadata": last}))

    def delete(self, plural: str, name: str, namespace: str = "team") -> None:
        """Remove an object as soon as nobody holds it by a finalizer."""
        place = plural, namespace, name
        known = self._objects.get(place)
        if known is None:
            return
        metadata = as_object(known["metadata"])
        if not metadata.get("finalizers"):
            self.drop(plural, name, namespace)
        elif "deletionTimestamp" not in metadata:
            going = metadata | {"deletionTimestamp": _stamp(self.clock())}
            self._keep(place, known, known | {"metadata": going})

    async def watch(self, kind: Kind, namespace: str, version: str) -> AsyncGenerator[JsonObject]:
        """Yield the changes after a version, for ever. Raises ExpiredError for one too old."""
        told: asyncio.Queue[Change] = asyncio.Queue()
        if (
            len(self.history) == self.history.maxlen
            and _version(self.history[0]) > int(version) + 1
        ):
            raise ExpiredError("too old resource version")
        for change in self.history:
            if _version(change) > int(version):
                told.put_nowait(change)
        self.listeners.append(told.put_nowait)
        try:
            while True:
                change = await told.get()
                metadata = as_object(change.raw["metadata"])
                if (change.plural, metadata["namespace"]) == (kind[1], namespace):
                    yield {"type": change.type, "object": change.raw}
        finally:
            self.listeners.remove(told.put_nowait)

    # ---------------------------------------------------------------- for its client

    def respond(self, request: Request) -> Answer:
        """Return what is answered, whatever it is."""
        try:
            said = self.answer(request)
        except Refused as refused:
            return refusal(refused.status, refused.message)
        return Answer(HTTPStatus.OK, json.dumps(said).encode())

    def answer(self, request: Request) -> JsonObject:
        """Return what is answered, only to be looked at; raise Refused."""
        self.asked.append(request)
        path, _, _ = request.path.partition("?")
        match = _PATH.fullmatch(path)
        assert match, path
        plural, namespace, name = match["plural"], match["namespace"], match["name"]
        if request.method == "POST":
            return self._create(plural, namespace, request.body)
        if name is None:
            return self._list(plural, namespace, request.query)
        place = plural, namespace, name
        known = self._objects.get(place)
        if known is None:
            raise Refused(HTTPStatus.NOT_FOUND, f'{plural} "{name}" not found')
        match request.method:
            case "GET":
                return known
            case "PATCH":
                return self._patch(place, known, request.body, match["part"])
            case "DELETE":
                return self._delete(place, known, request.body)
            case other:
                raise AssertionError(other)

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> JsonObject:
        name = query.get("fieldSelector", "").removeprefix("metadata.name=")
        wanted = [part.partition("=")[::2] for part in _parts(query.get("labelSelector", ""))]
        items: list[JsonValue] = []
        for raw in self.peek_all(plural, namespace):
            metadata = as_object(raw["metadata"])
            labels = as_object(metadata.get("labels"))
            if name in ("", metadata["name"]) and all(labels.get(k) == v for k, v in wanted):
                items.append(raw)
        return {"items": items, "metadata": {"resourceVersion": str(self._version)}}

    def _create(self, plural: str, namespace: str, body: JsonObject) -> JsonObject:
        raw = copy.deepcopy(body)
        metadata = as_object(raw["metadata"])
        self._count += 1
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{self._count}"
        metadata["namespace"] = namespace
        place = plural, namespace, str(metadata["name"])
        if place in self._objects:
            raise Refused(HTTPStatus.CONFLICT, f'{plural} "{place[2]}" already exists')
        raw.pop("status", None)
        return self._keep(place, {}, raw)

    def _patch(self, place: Place, known: JsonObject, body: JsonObject, part: str) -> JsonObject:
        wanted, there = as_object(body.get("metadata")), as_object(known["metadata"])
        for precondition in ("resourceVersion", "uid"):
            if precondition in wanted and wanted[precondition] != there[precondition]:
                message = f"the object has been modified: {precondition} is another one"
                raise Refused(HTTPStatus.CONFLICT, message)
        if part == "status":
            return self._keep(place, known, merged(known, {"status": body.get("status")}))
        return self._keep(place, known, merged(known, {"spec": body.get("spec", {})}))

    def _delete(self, place: Place, known: JsonObject, body: JsonObject) -> JsonObject:
        wanted = as_object(body.get("preconditions")).get("uid")
        if wanted is not None and wanted != as_object(known["metadata"])["uid"]:
            raise Refused(HTTPStatus.CONFLICT, "the uid is another one")
        self.delete(place[0], place[2], place[1])
        return {"kind": "Status", "status": "Success"}

    def _keep(self, place: Place, known: JsonObject, raw: JsonObject) -> JsonObject:
        before, metadata = as_object(known.get("metadata")), dict(as_object(raw["metadata"]))
        self._version += 1
        self._count += 1
        generation = int(str(before.get("generation", 0)))
        if raw.get("spec") != known.get("spec") or not generation:
            generation += 1
        metadata.setdefault("namespace", place[1])
        metadata.setdefault("uid", f"{self._count:08x}-0000-4000-8000-000000000000")
        metadata.setdefault("creationTimestamp", _stamp(self.clock()))
        metadata |= {"resourceVersion": str(self._version), "generation": generation}
        raw = raw | {"metadata": metadata}
        self._objects[place] = raw
        self._tell(Change("MODIFIED" if known else "ADDED", place[0], raw))
        return raw

    def _tell(self, change: Change) -> None:
        self.history.append(change)
        for listener in list(self.listeners):
            listener(change)


@dataclass
class _Client:
    """What the controller uses of the client's ApiClient."""

    wire: Wire

    async def call_api(self, request: Request, *, _request_timeout: float) -> Answer:
        return await self.wire(request)

    async def param_serialize(
        self,
        method: str,
        path: str,
        *,
        query_params: list[tuple[str, str]],
        body: JsonObject | None,
        **_: object,
    ) -> tuple[Request]:
        return (Request(method, path, body or {}, dict(query_params)),)


def refusal(status: int, message: str, **headers: str) -> Answer:
    """Return an answer that is no success."""
    text = json.dumps({"kind": "Status", "message": message})
    return Answer(status, text.encode(), {k.replace("_", "-"): v for k, v in headers.items()})


def _version(change: Change) -> int:
    return int(str(as_object(change.raw["metadata"])["resourceVersion"]))


def _parts(selector: str) -> list[str]:
    return [part for part in selector.split(",") if part]


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def merged(old: JsonObject, patch: JsonObject) -> JsonObject:
    """Return the object with a merge patch applied, as RFC 7386 has it."""
    result = dict(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(as_object(result.get(name)), value)
        else:
            result[name] = copy.deepcopy(value)
    return result
