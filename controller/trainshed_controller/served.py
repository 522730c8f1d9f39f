"""Whether the CRDs of the cluster have the fields that this release writes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from trainshed_api import names
from trainshed_api.crd import status_schema
from trainshed_api.json_object import as_object, objects
from trainshed_controller.connection import RUNS
from trainshed_controller.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.connection import Connection

log = logging.getLogger("trainshed.served")

# Between two looks at CRDs that somebody has to upgrade.
_AGAIN_SECONDS = 10.0
# KubeRay has it from 1.7 on; without it the API server refuses RayJobs of dedicated clusters.
_OF_RAY_JOBS: JsonObject = {"properties": {"preRunningDeadlineSeconds": {}}}


async def wait_for_crds(connection: Connection) -> None:
    """Wait until the CRD of TrainingRuns is that of this release, or cannot be asked for.

    One of RayJobs that is too old is reported by the runs that need what it lacks.
    """
    try:
        while complaint := complaint_about_runs(await connection.openapi(RUNS)):
            log.error("no run begins: %s", complaint)
            await asyncio.sleep(_AGAIN_SECONDS)
    except ApiError as error:
        log.warning("cannot check the CRD of %s: %s", RUNS[1], error)


def complaint_about_runs(openapi: JsonObject) -> str:
    """Return what the served CRD of TrainingRuns lacks; empty if nothing.

    openapi: the API server's document about its group.
    """
    remedy = "Apply the CRD of this release, or upgrade the release that installed it"
    return _complaint(openapi, names.KIND, "status", status_schema(), remedy)


def complaint_about_jobs(openapi: JsonObject) -> str:
    """Return what the served CRD of RayJobs lacks; empty if nothing."""
    return _complaint(openapi, "RayJob", "spec", _OF_RAY_JOBS, "Upgrade KubeRay to 1.7")


def _complaint(openapi: JsonObject, kind: str, part: str, wanted: JsonObject, remedy: str) -> str:
    schemas = as_object(as_object(openapi.get("components")).get("schemas"))
    for each in map(as_object, schemas.values()):
        kinds = objects(each.get("x-kubernetes-group-version-kind"))
        served = as_object(as_object(each.get("properties")).get(part))
        if kinds and kinds[0].get("kind") == kind and served:
            lacks = list(_missing(served, wanted, part))
            if lacks:
                fields = ", ".join(lacks[:3])
                return f"CRD of {kind}: got one without {fields}; expected that field. {remedy}."
    return ""


def _missing(served: JsonObject, wanted: JsonObject, path: str) -> Iterator[str]:
    """Yield the paths of fields that a served schema lacks."""
    there = as_object(served.get("properties"))
    for name, field in as_object(wanted.get("properties")).items():
        if name in there:
            yield from _missing(as_object(there[name]), as_object(field), f"{path}.{name}")
        elif "x-kubernetes-preserve-unknown-fields" not in served:
            yield f"{path}.{name}"
    for inner in ("items", "additionalProperties"):
        if inner in served and inner in wanted:
            yield from _missing(as_object(served[inner]), as_object(wanted[inner]), path)
