"""What is read from the Kubernetes API, and the few writes there are."""

from __future__ import annotations

import base64
import contextlib
import secrets
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from trainshed_api.json_object import as_object, objects
from trainshed_controller.connection import (
    CLUSTERS,
    JOBS,
    PODS,
    RUNS,
    Connection,
    path_of,
)
from trainshed_controller.errors import BugError, ConflictError, GoneError, RefusedError
from trainshed_controller.event import event_of, series_of
from trainshed_controller.served import complaint_about_jobs
from trainshed_controller.views import read_job, read_pod, read_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.connection import Kind
    from trainshed_controller.model import Note, PodView, RayJobView, RunView

# Names without what belongs to them: a page of it is small whatever people put into their objects.
_NAMES_ALONE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
EVENTS = "apis/events.k8s.io/v1", "events"
POLICIES = "apis/networking.k8s.io/v1", "networkpolicies"
_KEY_NAME, _KEY_BYTES = "key", 32
_JSON = "application/json"
_STRICT = {"fieldValidation": "Strict"}

V = TypeVar("V")


class Cluster(Connection):
    """The objects of a namespace that the controller reads and writes."""

    # ---------------------------------------------------------------- reading

    async def list_runs(self, namespace: str) -> list[RunView]:
        """Return all TrainingRuns of a namespace."""
        return await self._list(RUNS, namespace, read_run)

    async def list_jobs(self, namespace: str) -> list[RayJobView]:
        """Return all RayJobs of a namespace."""
        return await self._list(JOBS, namespace, read_job)

    async def list_pods(self, namespace: str, selector: str) -> list[PodView]:
        """Return the Pods of a namespace that have these labels."""
        return await self._list(PODS, namespace, read_pod, selector)

    async def find(self, kind: Kind, namespace: str, name: str, accept: str = _JSON) -> JsonObject:
        """Return the object that has the name now; empty where there is none.

        A LIST of one: it takes no right to get Pods and RayClusters, and 404 never means that
        the object is gone.
        """
        query = {"fieldSelector": f"metadata.name={name}"}
        page = await self.request("GET", path_of(kind, namespace), query, accept=accept)
        return next(iter(objects(page.get("items"))), {})

    async def uid_of(self, kind: Kind, namespace: str, name: str) -> str:
        """Return the uid of the object that has the name now; empty where there is none."""
        found = await self.find(kind, namespace, name, _NAMES_ALONE)
        return str(as_object(found.get("metadata")).get("uid", ""))

    async def get_job(self, namespace: str, name: str) -> RayJobView | None:
        """Return the RayJob as it is now; None where there is none."""
        found = await self.find(JOBS, namespace, name)
        return read_job(found) if found else None

    async def get_run(self, namespace: str, name: str) -> RunView | None:
        """Return the TrainingRun as it is now; None where there is none."""
        found = await self.find(RUNS, namespace, name)
        return read_run(found) if found else None

    async def _list(
        self, kind: Kind, namespace: str, read: Callable[[JsonObject], V], selector: str = ""
    ) -> list[V]:
        found: list[V] = []
        token = ""
        while True:
            items, metadata = await self.list_page(kind, namespace, token, selector)
            found += [read(item) for item in items]
            token = str(metadata.get("continue") or "")
            if not token:
                return found

    # ---------------------------------------------------------------- writing

    async def patch_status(self, view: RunView, patch: JsonObject) -> RunView:
        """Return the run with its status merged.

        Raises ConflictError where the run is no longer as it was looked at, GoneError where it
        is gone.
        """
        body: JsonObject = {"metadata": {"resourceVersion": view.resource_version}, "status": patch}
        path = path_of(RUNS, view.namespace, view.name, "status")
        return read_run(await self.request("PATCH", path, _STRICT, body), view)

    async def create_job(self, manifest: JsonObject) -> RayJobView:
        """Return the RayJob that was created.

        Raises ConflictError where there is one already, RefusedError where the CRD is too old.
        """
        path = path_of(JOBS, str(as_object(manifest["metadata"])["namespace"]))
        try:
            return read_job(await self.request("POST", path, _STRICT, manifest))
        except BugError:
            if complaint := complaint_about_jobs(await self.openapi(JOBS)):
                raise RefusedError(f"POST {path}", complaint) from None
            raise

    async def create_policy(self, manifest: JsonObject) -> None:
        """Create a NetworkPolicy, unless it exists."""
        path = path_of(POLICIES, str(as_object(manifest["metadata"])["namespace"]))
        with contextlib.suppress(ConflictError):
            await self.request("POST", path, _STRICT, manifest)

    async def delete_job(self, job: RayJobView) -> bool:
        """Delete this very RayJob; return whether it was there."""
        try:
            await self._delete(path_of(JOBS, job.namespace, job.name), job.uid)
        except (GoneError, ConflictError):
            if await self.uid_of(JOBS, job.namespace, job.name) == job.uid:
                raise
            return False  # it is gone, or another one has its name by now
        return True

    async def delete_run(self, view: RunView) -> None:
        """Delete this very TrainingRun, if it is still there; its RayJobs follow."""
        with contextlib.suppress(GoneError, ConflictError):
            await self._delete(path_of(RUNS, view.namespace, view.name), view.uid)

    async def delete_cluster(self, namespace: str, name: str) -> bool:
        """Delete a RayCluster; return whether it was there."""
        uid = ""
        with contextlib.suppress(GoneError, ConflictError):  # the kind itself may be gone
            uid = await self.uid_of(CLUSTERS, namespace, name)
            if uid:
                await self._delete(path_of(CLUSTERS, namespace, name), uid)
        return bool(uid)

    async def suspend_run(self, view: RunView) -> None:
        """Have the run stop after a checkpoint; it stays so until somebody says otherwise."""
        path = path_of(RUNS, view.namespace, view.name)
        body: JsonObject = {"metadata": {"uid": view.uid}, "spec": {"suspend": True}}
        await self.request("PATCH", path, body=body)

    async def scale_to_zero(self, namespace: str, deployment: str) -> None:
        """End all Pods of a Deployment."""
        path = path_of(("apis/apps/v1", "deployments"), namespace, deployment, "scale")
        body: JsonObject = {"spec": {"replicas": 0}}
        await self.request("PATCH", path, body=body)

    async def _delete(self, path: str, uid: str) -> None:
        body: JsonObject = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        await self.request("DELETE", path, body=body)

    async def post_event(self, view: RunView, note: Note, name: str, count: int) -> None:
        """Put an Event on the run, or write into it how often it happened."""
        path, now = path_of(EVENTS, view.namespace), datetime.now(UTC)
        if count > 1:
            with contextlib.suppress(GoneError):  # the API server keeps Events for an hour
                series = series_of(count, now)
                await self.request("PATCH", f"{path}/{name}", body=series)
                return
        event = event_of(view, note, name, socket.gethostname(), now)
        await self.request("POST", path, body=event)

    async def read_key(self, namespace: str, secret: str) -> bytes:
        """Return the key that bearer tokens are made with; where there is none, one is made up.

        The chart makes the Secret without data: templates that invent keys rotate them.
        """
        path = path_of(("api/v1", "secrets"), namespace, secret)
        found = await self.request("GET", path)
        held = as_object(found.get("data")).get(_KEY_NAME)
        if held:
            return base64.b64decode(str(held))
        made = secrets.token_bytes(_KEY_BYTES)
        body: JsonObject = {
            "metadata": {"resourceVersion": as_object(found.get("metadata"))["resourceVersion"]},
            "data": {_KEY_NAME: base64.b64encode(made).decode()},
        }
        await self.request("PATCH", path, body=body)
        return made
