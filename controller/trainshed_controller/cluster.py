"""The Kubernetes API: the only importer of its client. Reads, and the few writes there are."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self, TypeVar

import aiohttp
from kubernetes.aio import client, config

from trainshed_api import names
from trainshed_api.json_object import as_object
from trainshed_controller.cache import Names
from trainshed_controller.errors import BugError, ConflictError, GoneError, RetryError, error_of
from trainshed_controller.event import event_of
from trainshed_controller.views import read_job, read_pod, read_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.model import Note, PodView, RayJobView, RunView

RUNS = f"apis/{names.API_VERSION}", names.PLURAL
JOBS = "apis/ray.io/v1", "rayjobs"
CLUSTERS = "apis/ray.io/v1", "rayclusters"
PODS = "api/v1", "pods"
RAY_PODS = "ray.io/is-ray-node=yes"

# Objects of 1.4 MB may be among them, each thirty times as large when it is parsed.
_PAGE, _PAGE_OF_NAMES = 5, 500
_FIRST_ERROR = 300
# Names without what belongs to them: a page of it is small whatever people put into their objects.
_NAMES_ALONE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_KEY_NAME, _KEY_BYTES = "key", 32
_JSON, _MERGE_PATCH = "application/json", "application/merge-patch+json"
_STRICT = {"fieldValidation": "Strict"}

Kind = tuple[str, str]
V = TypeVar("V")


async def open_session(kubeconfig: Path) -> tuple[str, aiohttp.ClientSession]:
    """Return where the API server is, and a session for those who speak to it by themselves."""
    told = client.Configuration()
    await config.load_kube_config(  # type: ignore[no-untyped-call]  # the client's own
        str(kubeconfig), client_configuration=told
    )
    secure = ssl.create_default_context(cafile=told.ssl_ca_cert)
    if told.cert_file:
        secure.load_cert_chain(told.cert_file, told.key_file)
    token = told.api_key.get("BearerToken")
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=secure if told.verify_ssl else False),
        headers={"Authorization": token} if token else {},
    )
    return told.host, session


class Cluster:
    """One connection to the API server.

    Args:
        request_seconds: what is not answered by then failed.
    """

    def __init__(self, api: client.ApiClient, request_seconds: float) -> None:
        self._api = api
        self._request_seconds = request_seconds

    @classmethod
    async def connect(cls, kubeconfig: Path | None, request_seconds: float) -> Self:
        """Return a connection: as told by a file, else as the Pod that this runs in."""
        # As kopf does: with it each request asks a thread for ~/.netrc, a tenth of our time.
        configuration = client.Configuration(client_session_kwargs={"trust_env": False})
        if kubeconfig:
            await config.load_kube_config(  # type: ignore[no-untyped-call]  # the client's own
                str(kubeconfig), client_configuration=configuration
            )
        else:
            config.load_incluster_config(  # type: ignore[no-untyped-call]  # the client's own
                client_configuration=configuration
            )
        return cls(client.ApiClient(configuration), request_seconds)

    async def close(self) -> None:
        """Let go of the connection."""
        await self._api.close()  # type: ignore[no-untyped-call]  # the client's own

    # ---------------------------------------------------------------- reading

    async def list_runs(self, namespace: str) -> list[RunView]:
        """Return all TrainingRuns of a namespace."""
        return await self._list(RUNS, namespace, read_run)

    async def list_jobs(self, namespace: str) -> list[RayJobView]:
        """Return all RayJobs of a namespace."""
        return await self._list(JOBS, namespace, read_job)

    async def list_pods(self, namespace: str, selector: str = RAY_PODS) -> list[PodView]:
        """Return the Pods of Ray in a namespace."""
        return await self._list(PODS, namespace, read_pod, selector)

    async def list_names(self, kind: Kind, namespace: str) -> Names:
        """Return who is there, and nothing of what they are."""
        uids: dict[str, str] = {}
        versions: dict[str, str] = {}
        query = _query(RAY_PODS if kind == PODS else "", _PAGE_OF_NAMES)
        while True:
            page = await self._request("GET", _path(kind, namespace), query, accept=_NAMES_ALONE)
            for item in _items(page):
                metadata = as_object(item.get("metadata"))
                name = str(metadata.get("name"))
                uids[name] = str(metadata.get("uid"))
                versions[name] = str(metadata.get("resourceVersion"))
            metadata = as_object(page.get("metadata"))
            if not metadata.get("continue"):
                return Names(uids, str(metadata.get("resourceVersion", "")), versions)
            query["continue"] = str(metadata["continue"])

    async def find(self, kind: Kind, namespace: str, name: str, accept: str = _JSON) -> JsonObject:
        """Return the object that has the name now; empty where there is none.

        A LIST of one: that takes no right to get Pods and RayClusters.
        """
        query = {"fieldSelector": f"metadata.name={name}"}
        page = await self._request("GET", _path(kind, namespace), query, accept=accept)
        return next(iter(_items(page)), {})

    async def uid_of(self, kind: Kind, namespace: str, name: str) -> str:
        """Return the uid of the object that has the name now; empty where there is none."""
        found = await self.find(kind, namespace, name, _NAMES_ALONE)
        return str(as_object(found.get("metadata")).get("uid", ""))

    async def get_job(self, namespace: str, name: str) -> RayJobView | None:
        """Return the RayJob as it is now; None where there is none."""
        try:
            return read_job(await self._request("GET", _path(JOBS, namespace, name)))
        except GoneError:  # ask twice, because the answer has consequences
            found = await self.find(JOBS, namespace, name)
            return read_job(found) if found else None

    async def get_run(self, namespace: str, name: str) -> RunView | None:
        """Return the TrainingRun as it is now; None where there is none."""
        try:
            return read_run(await self._request("GET", _path(RUNS, namespace, name)))
        except GoneError:
            return None

    async def _list(
        self, kind: Kind, namespace: str, read: Callable[[JsonObject], V], selector: str = ""
    ) -> list[V]:
        found: list[V] = []
        query = _query(selector, _PAGE)
        while True:
            page = await self._request("GET", _path(kind, namespace), query)
            found += [read(item) for item in _items(page)]
            metadata = as_object(page.get("metadata"))
            if not metadata.get("continue"):
                return found
            query["continue"] = str(metadata["continue"])

    # ---------------------------------------------------------------- writing

    async def patch_status(self, view: RunView, patch: JsonObject) -> RunView:
        """Return the run with its status merged.

        Raises ConflictError where the run is no longer as it was looked at, GoneError where it
        is gone.
        """
        body: JsonObject = {"metadata": {"resourceVersion": view.resource_version}, "status": patch}
        path = _path(RUNS, view.namespace, view.name, "status")
        return read_run(await self._request("PATCH", path, _STRICT, body, _MERGE_PATCH), view)

    async def create_job(self, manifest: JsonObject) -> RayJobView:
        """Return the RayJob that was created. Raises ConflictError where there is one already."""
        namespace = str(as_object(manifest["metadata"])["namespace"])
        return read_job(await self._request("POST", _path(JOBS, namespace), _STRICT, manifest))

    async def delete_job(self, job: RayJobView) -> bool:
        """Delete this very RayJob; return whether it was there."""
        try:
            await self._delete(_path(JOBS, job.namespace, job.name), job.uid)
        except GoneError:
            if await self.uid_of(JOBS, job.namespace, job.name) == job.uid:
                raise
            return False
        except ConflictError:
            found = await self.get_job(job.namespace, job.name)
            if found and found.uid == job.uid:
                raise
            return False  # another one has its name by now
        return True

    async def delete_run(self, view: RunView) -> None:
        """Delete this very TrainingRun, if it is still there; its RayJobs follow."""
        with contextlib.suppress(GoneError, ConflictError):
            await self._delete(_path(RUNS, view.namespace, view.name), view.uid)

    async def suspend_run(self, view: RunView) -> None:
        """Have the run stop after a checkpoint; it stays so until somebody says otherwise."""
        path = _path(RUNS, view.namespace, view.name)
        body: JsonObject = {"metadata": {"uid": view.uid}, "spec": {"suspend": True}}
        await self._request("PATCH", path, body=body, content_type=_MERGE_PATCH)

    async def scale_to_zero(self, namespace: str, deployment: str) -> None:
        """End all Pods of a Deployment."""
        path = _path(("apis/apps/v1", "deployments"), namespace, deployment, "scale")
        body: JsonObject = {"spec": {"replicas": 0}}
        await self._request("PATCH", path, body=body, content_type=_MERGE_PATCH)

    async def _delete(self, path: str, uid: str) -> None:
        body: JsonObject = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        await self._request("DELETE", path, body=body)

    async def post_event(self, view: RunView, note: Note) -> None:
        """Put an Event on the run."""
        event = event_of(view, note, datetime.now(UTC))
        await self._request("POST", _path(("api/v1", "events"), view.namespace), body=event)

    async def read_key(self, namespace: str, secret: str) -> bytes:
        """Return the key that bearer tokens are made with; where there is none, one is made up.

        The chart makes the Secret without data: templates that invent keys rotate them.
        """
        path = _path(("api/v1", "secrets"), namespace, secret)
        found = await self._request("GET", path)
        held = as_object(found.get("data")).get(_KEY_NAME)
        if held:
            return base64.b64decode(str(held))
        made = secrets.token_bytes(_KEY_BYTES)
        body: JsonObject = {
            "metadata": {"resourceVersion": as_object(found.get("metadata"))["resourceVersion"]},
            "data": {_KEY_NAME: base64.b64encode(made).decode()},
        }
        await self._request("PATCH", path, body=body, content_type=_MERGE_PATCH)
        return made

    async def _request(  # noqa: PLR0913, PLR0917  # what HTTP has
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> JsonObject:
        """Return the answer; every way in which there can be none is an ApiError.

        The client's generated methods check each argument, at three times the cost.
        """
        wanted = f"{method} {path}"
        try:
            request = await self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Accept": accept, "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = await self._api.call_api(*request, _request_timeout=self._request_seconds)
            text = await answer.read()  # type: ignore[no-untyped-call]  # the client's own
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise RetryError(f"{wanted}: {type(error).__name__} {error}") from None
        if answer.status >= _FIRST_ERROR:
            raise error_of(wanted, answer.status, text, answer.headers.get("Retry-After", ""))
        try:
            return as_object(json.loads(text))
        except ValueError:
            raise RetryError(f"{wanted}: the answer is cut off") from None
        except RecursionError:
            raise BugError(f"{wanted}: the answer is nested too deep") from None


def _query(selector: str, page: int) -> dict[str, str]:
    return {"limit": str(page)} | ({"labelSelector": selector} if selector else {})


def _items(page: JsonObject) -> list[JsonObject]:
    items = page.get("items")
    return [as_object(item) for item in items] if isinstance(items, list) else []


def _path(kind: Kind, namespace: str, *rest: str) -> str:
    return "/".join(("", kind[0], "namespaces", namespace, kind[1], *rest))
