"""The Kubernetes API as the stand-in uses it: JSON in, JSON out, errors as one exception."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote

from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.rest import RESTResponse

from tests.kuberay.resources import Manifest

_AUTH = ["BearerToken"]


@dataclass(frozen=True)
class Kind:
    """A kind of object, by its place in the API."""

    prefix: str
    plural: str

    def path(self, namespace: str | None, name: str = "", part: str = "") -> str:
        """Return the path of an object, or of all of a namespace, or of all."""
        scope = f"/namespaces/{quote(namespace)}" if namespace else ""
        tail = "".join(f"/{quote(piece)}" for piece in (name, part) if piece)
        return f"{self.prefix}{scope}/{self.plural}{tail}"


CLUSTERS = Kind("/apis/ray.io/v1", "rayclusters")
JOBS = Kind("/apis/ray.io/v1", "rayjobs")
PODS = Kind("/api/v1", "pods")
SERVICES = Kind("/api/v1", "services")
SECRETS = Kind("/api/v1", "secrets")
EVENTS = Kind("/api/v1", "events")


class TryAgainError(Exception):
    """Something is not as it should be yet; another look is worth it."""


class ApiError(TryAgainError):
    """The API server said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


class KubeApi:
    """A connection to an API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    @classmethod
    async def connect(cls, kubeconfig: Path | None) -> Self:
        """Return a connection by that file, or by the service account of this Pod."""
        settings = Configuration()
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig), client_configuration=settings
            )
        return cls(ApiClient(settings))

    async def __aenter__(self) -> Self:
        """Return the connection, which closes at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection; watches that hang on it are not waited for."""
        pool = self._client.rest_client.pool_manager
        if pool is not None and pool.connector is not None:
            await pool.connector.close(abort_ssl=True)
        await self._client.close()  # type: ignore[no-untyped-call]

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return the object, or None where there is none."""
        try:
            return await self._ask("GET", kind.path(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list_all(
        self, kind: Kind, namespace: str | None, *, labels: str = ""
    ) -> tuple[list[Manifest], str]:
        """Return the objects and the version of the list, to watch from."""
        answer = await self._ask("GET", kind.path(namespace), query=_selector(labels))
        items, metadata = answer.get("items"), answer.get("metadata")
        if not isinstance(items, list) or not isinstance(metadata, dict):
            raise ApiError(500, f"no list of {kind.plural}: {answer}")
        found = [item for item in items if isinstance(item, dict)]
        return found, str(metadata.get("resourceVersion"))

    async def create(
        self,
        kind: Kind,
        namespace: str,
        manifest: Manifest,
        *,
        is_strict: bool = False,
        is_trial: bool = False,
    ) -> Manifest:
        """Create the object; strictly refuses unknown fields, and a trial keeps nothing."""
        query = [("fieldValidation", "Strict")] * is_strict + [("dryRun", "All")] * is_trial
        return await self._ask("POST", kind.path(namespace), query=query, body=manifest)

    async def replace(
        self, kind: Kind, namespace: str, name: str, manifest: Manifest, *, part: str = ""
    ) -> Manifest:
        """Replace the object, or one part of it such as its status."""
        return await self._ask("PUT", kind.path(namespace, name, part), body=manifest)

    async def patch(
        self, kind: Kind, namespace: str, name: str, change: Manifest, *, part: str = ""
    ) -> Manifest:
        """Merge a change into the object, or into one part of it."""
        path = kind.path(namespace, name, part)
        return await self._ask("PATCH", path, body=change, content="application/merge-patch+json")

    async def bind(self, namespace: str, pod: str, node: str) -> None:
        """Put a Pod on a node, as the scheduler does."""
        binding: Manifest = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._ask("POST", PODS.path(namespace, pod, "binding"), body=binding)

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, grace_seconds: int | None = None
    ) -> bool:
        """Delete the object; return whether there was one."""
        options: Manifest = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self._ask("DELETE", kind.path(namespace, name), body=options)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def watch(
        self, kind: Kind, namespace: str | None, version: str, *, labels: str = ""
    ) -> AsyncIterator[tuple[str, Manifest]]:
        """Yield (type, object) for what happens after that version, for up to a minute."""
        query = [*_selector(labels), ("watch", "true"), ("resourceVersion", version)]
        query += [("timeoutSeconds", "60"), ("allowWatchBookmarks", "true")]
        request = await self._client.param_serialize(
            "GET", kind.path(namespace), query_params=query, auth_settings=_AUTH
        )
        answer = await _to_its_end(self._client.call_api(*request, _request_timeout=90))
        if answer.status != 200:
            raise ApiError(answer.status, await answer.response.text())
        try:
            async for line in answer.response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(event["object"].get("code", 500), str(event["object"]))
                yield event["type"], event["object"]
        finally:
            _drop(answer)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        query: list[tuple[str, str]] | None = None,
        body: Manifest | None = None,
        content: str = "application/json",
    ) -> Manifest:
        request = await self._client.param_serialize(
            method,
            path,
            query_params=query or [],
            header_params={"Content-Type": content, "Accept": "application/json"},
            auth_settings=_AUTH,
        )
        _, url, headers, _, _ = request
        answer = await _to_its_end(self._client.call_api(method, url, headers, body))
        text = await answer.response.text()
        if answer.status >= 400:
            raise ApiError(answer.status, text)
        parsed: Manifest = json.loads(text)
        return parsed


async def _to_its_end(call: Coroutine[object, object, RESTResponse]) -> RESTResponse:
    """Return the answer of a call; who is cancelled meanwhile waits for its end and drops it.

    A TLS connection that is given up half way closes in its own time, which outlives the loop.
    """
    asked = asyncio.create_task(call)
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        await asyncio.wait([asked])
        if not asked.cancelled() and asked.exception() is None:
            _drop(asked.result())
        raise


def _drop(answer: RESTResponse) -> None:
    """Close a connection at once, without the farewell of TLS."""
    connection = answer.response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    answer.response.close()


def _selector(labels: str) -> list[tuple[str, str]]:
    return [("labelSelector", labels)] if labels else []
