"""An API server in this process: what the controller's client sends is answered as it would be.

Objects have resourceVersions, uids and generations; merge patches and deletions heed what they are
on condition of. Nothing is validated, and nobody watches: what a controller knows of it is what
its answers said, and what a test puts into its cache.
"""

import copy
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from trainshed_api.json_object import JsonObject, as_object
from trainshed_controller.cluster import Cluster

if TYPE_CHECKING:
    from kubernetes.aio import client
    from pydantic import JsonValue

_PATH = re.compile(
    r"/(?P<group>api[^?]*?)/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<part>status))?"
)

Place = tuple[str, str, str]
"""Plural, namespace, name."""


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


@dataclass
class Answer:
    """What the client's own answers have that the controller uses."""

    status: int
    text: bytes
    headers: dict[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        """Return the body."""
        return self.text


@dataclass
class ApiServer:
    """Objects by place.

    Attributes:
        now: the server's clock.
        asked: each request, in order.
    """

    now: datetime = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    asked: list[Request] = field(default_factory=list)
    _objects: dict[Place, JsonObject] = field(default_factory=dict)
    _version: int = 0
    _count: int = 0

    # ---------------------------------------------------------------- for the test

    def connect(self) -> Cluster:
        """Return a connection as the controller has one."""
        return Cluster(cast("client.ApiClient", _Client(self)), request_seconds=5.0)

    def get(self, plural: str, name: str, namespace: str = "team") -> JsonObject | None:
        """Return a copy of an object."""
        return copy.deepcopy(self._objects.get((plural, namespace, name)))

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
        return self._keep(place, known, copy.deepcopy(raw))

    def drop(self, plural: str, name: str, namespace: str = "team") -> None:
        """Remove an object at once."""
        self._objects.pop((plural, namespace, name), None)
        self._version += 1

    # ---------------------------------------------------------------- for its client

    def answer(self, request: Request) -> JsonObject:
        """Return what is answered; raise Refused."""
        self.asked.append(request)
        path, _, _ = request.path.partition("?")
        match = _PATH.fullmatch(path)
        assert match, path
        plural, namespace, name = match["plural"], match["namespace"], match["name"]
        if request.method == "POST":
            return self._create(plural, namespace, request.body)
        if name is None:
            return self._list(plural, namespace)
        place = plural, namespace, name
        known = self._objects.get(place)
        if known is None:
            raise Refused(HTTPStatus.NOT_FOUND, f'{plural} "{name}" not found')
        match request.method:
            case "GET":
                return copy.deepcopy(known)
            case "PATCH":
                return self._patch(place, known, request.body, match["part"])
            case "DELETE":
                return self._delete(place, known, request.body)
            case other:
                raise AssertionError(other)

    def _list(self, plural: str, namespace: str) -> JsonObject:
        items: list[JsonValue] = [
            copy.deepcopy(raw)
            for (kind, space, _), raw in self._objects.items()
            if (kind, space) == (plural, namespace)
        ]
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
        self.drop(place[0], place[2], place[1])
        return {"kind": "Status", "status": "Success"}

    def _keep(self, place: Place, known: JsonObject, raw: JsonObject) -> JsonObject:
        before, metadata = as_object(known.get("metadata")), as_object(raw["metadata"])
        self._version += 1
        self._count += 1
        generation = int(str(before.get("generation", 0)))
        if raw.get("spec") != known.get("spec") or not generation:
            generation += 1
        metadata.setdefault("namespace", place[1])
        metadata.setdefault("uid", f"{self._count:08x}-0000-4000-8000-000000000000")
        metadata.setdefault("creationTimestamp", self.now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        metadata |= {"resourceVersion": str(self._version), "generation": generation}
        self._objects[place] = raw
        return copy.deepcopy(raw)


@dataclass
class _Client:
    """What the controller uses of the client's ApiClient."""

    server: ApiServer

    async def call_api(self, request: Request, *, _request_timeout: float) -> Answer:
        try:
            said = self.server.answer(request)
        except Refused as refused:
            text = json.dumps({"kind": "Status", "message": refused.message})
            return Answer(refused.status, text.encode())
        return Answer(HTTPStatus.OK, json.dumps(said).encode())

    async def param_serialize(
        self,
        method: str,
        path: str,
        *,
        body: JsonObject | None,
        query_params: list[tuple[str, str]],
        **_: object,
    ) -> tuple[Request]:
        return (Request(method, path, body or {}, dict(query_params)),)


def merged(old: JsonObject, patch: JsonObject) -> JsonObject:
    """Return the object with a merge patch applied, as RFC 7386 has it."""
    result = copy.deepcopy(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(as_object(result.get(name)), value)
        else:
            result[name] = copy.deepcopy(value)
    return result
