"""The connection to the Kubernetes API: requests, lists and watches. Alone imports its client."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Self

import aiohttp
from kubernetes.aio import client, config

from trainshed_api import names
from trainshed_api.json_object import as_object, objects
from trainshed_controller.errors import BugError, ExpiredError, RetryError, error_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
    from pathlib import Path

    from kubernetes.aio.client.rest import RESTResponse

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.settings import Timings

RUNS = f"apis/{names.API_VERSION}", names.PLURAL
JOBS = "apis/ray.io/v1", "rayjobs"
CLUSTERS = "apis/ray.io/v1", "rayclusters"
PODS = "api/v1", "pods"
_SELECTORS = {PODS: "ray.io/is-ray-node=yes"}

MANAGER = "trainshed-controller"
# Runs and RayJobs may have 1.4 MB, and be thirty times as large when they are parsed. Of the others
# there are many, and each page is a request that may fail.
_PAGE = 5
_PAGES = {PODS: 100, CLUSTERS: 100}
_WATCH_SECONDS = "300"
_FIRST_ERROR = 300
_JSON = "application/json"
_CONTENT_TYPES = {"PATCH": "application/merge-patch+json"}

Kind = tuple[str, str]


async def configure(kubeconfig: Path | None) -> client.Configuration:
    """Return how the API server is reached: by a file, else as the Pod that this runs in."""
    # With trust_env each request asks a thread for ~/.netrc, a tenth of our time.
    configuration = client.Configuration(client_session_kwargs={"trust_env": False})
    if kubeconfig:
        await config.load_kube_config(  # type: ignore[no-untyped-call]  # the client's own
            str(kubeconfig), client_configuration=configuration
        )
    else:
        config.load_incluster_config(  # type: ignore[no-untyped-call]  # the client's own
            client_configuration=configuration
        )
    return configuration


class Connection:
    """One connection to the API server.

    may_write: asked before each write.
    """

    def __init__(self, api: client.ApiClient, timings: Timings) -> None:
        self._api = api
        self._timings = timings
        self.may_write: Callable[[], bool] = lambda: True

    @classmethod
    async def connect(cls, kubeconfig: Path | None, timings: Timings) -> Self:
        """Return a connection."""
        api = client.ApiClient(await configure(kubeconfig))
        api.user_agent = MANAGER
        return cls(api, timings)

    async def close(self) -> None:
        """Let go of the connection."""
        await self._api.close()  # type: ignore[no-untyped-call]  # the client's own

    async def list_page(
        self, kind: Kind, namespace: str, token: str = "", selector: str = ""
    ) -> tuple[list[JsonObject], JsonObject]:
        """Return some objects of a kind, and the metadata of their list.

        token: `continue` of the page before; empty for the first one.
        """
        selector = selector or _SELECTORS.get(kind, "")
        query = _query(selector, **{"limit": str(_PAGES.get(kind, _PAGE)), "continue": token})
        page = await self.request("GET", path_of(kind, namespace), query)
        return objects(page.get("items")), as_object(page.get("metadata"))

    async def openapi(self, kind: Kind) -> JsonObject:
        """Return what the API server says of the kinds of a group; all accounts may read it."""
        return await self.request("GET", f"/openapi/v3/{kind[0]}")

    async def watch(self, kind: Kind, namespace: str, version: str) -> AsyncGenerator[JsonObject]:
        """Yield the events after a version until the server ends the watch.

        Raises ExpiredError for a version that is too old, or a server that is silent.
        """
        path = path_of(kind, namespace)
        query = _query(_SELECTORS.get(kind, ""), watch="true", resourceVersion=version)
        query |= {"allowWatchBookmarks": "true", "timeoutSeconds": _WATCH_SECONDS}
        silence = aiohttp.ClientTimeout(
            sock_connect=self._timings.request_seconds, sock_read=self._timings.silence_seconds
        )
        try:
            answer = await self._send("GET", path, query, timeout=silence)
            with contextlib.closing(answer.response):
                if answer.status >= _FIRST_ERROR:
                    await self._read(f"GET {path}", answer)
                rest = b""
                async for chunk in answer.response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield as_object(json.loads(line))
        except TimeoutError:
            # Bookmarks come each minute, so the server is gone, or has another history.
            raise ExpiredError(f"watch of {kind[1]}: no event for a while") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RetryError(f"watch of {kind[1]}: {type(error).__name__} {error}") from None

    async def request(  # what HTTP has
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        accept: str = _JSON,
    ) -> JsonObject:
        """Return the answer; every way in which there can be none is an ApiError."""
        wanted = f"{method} {path}"
        if method in ("POST", "PATCH"):
            query = {"fieldManager": MANAGER, **(query or {})}
        if method != "GET" and not self.may_write():
            raise RetryError(f"{wanted}: another replica of the controller acts")
        try:
            seconds = self._timings.request_seconds
            answer = await self._send(method, path, query, body, accept, seconds)
            return await self._read(wanted, answer)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise RetryError(f"{wanted}: {type(error).__name__} {error}") from None

    async def _send(  # noqa: PLR0913, PLR0917  # what HTTP has
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        accept: str = _JSON,
        timeout: float | aiohttp.ClientTimeout = 0.0,
    ) -> RESTResponse:
        # The client's generated methods check each argument, at three times the cost.
        request = await self._api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": accept, "Content-Type": _CONTENT_TYPES.get(method, _JSON)},
            body=body,
            auth_settings=["BearerToken"],
        )
        return await self._api.call_api(*request, _request_timeout=timeout)

    @staticmethod
    async def _read(wanted: str, answer: RESTResponse) -> JsonObject:
        text = await answer.read()  # type: ignore[no-untyped-call]  # the client's own
        if answer.status >= _FIRST_ERROR:
            raise error_of(wanted, answer.status, text, answer.headers.get("Retry-After", ""))
        try:
            return as_object(json.loads(text))
        except ValueError:
            raise RetryError(f"{wanted}: the answer is cut off") from None
        except RecursionError:
            raise BugError(f"{wanted}: the answer is nested too deep") from None


def _query(selector: str, **wanted: str) -> dict[str, str]:
    """Return the query without what is empty."""
    return {name: value for name, value in {"labelSelector": selector, **wanted}.items() if value}


def path_of(kind: Kind, namespace: str, *rest: str) -> str:
    """Return the path of a kind in a namespace, or of what follows it."""
    return "/".join(("", kind[0], "namespaces", namespace, kind[1], *rest))
