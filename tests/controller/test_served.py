"""CRDs that are older than the controller are named at its start."""

import asyncio
import copy
import json
import re
from http import HTTPStatus

import pytest

from tests.controller.api_server import Answer, ApiServer, Request, refusal
from trainshed_api.crd import render_crd
from trainshed_api.json_object import JsonObject, as_object
from trainshed_controller.cluster import Cluster
from trainshed_controller.errors import RefusedError
from trainshed_controller.served import complaint_about_jobs, complaint_about_runs, wait_for_crds


def openapi(kind: str, schema: JsonObject) -> JsonObject:
    """Return what the API server says of a group with this kind."""
    of_kind: JsonObject = {"x-kubernetes-group-version-kind": [{"kind": kind}], **schema}
    return {"components": {"schemas": {"another": {"type": "object"}, f"dev.{kind}": of_kind}}}


def run_schema() -> JsonObject:
    """Return the schema of this release."""
    versions = as_object(render_crd()["spec"])["versions"]
    assert isinstance(versions, list)
    return copy.deepcopy(as_object(as_object(as_object(versions[0])["schema"])["openAPIV3Schema"]))


def test_the_crd_of_this_release_has_all_that_is_written() -> None:
    assert complaint_about_runs(openapi("TrainingRun", run_schema())) == ""


def test_an_older_crd_is_named_with_what_it_lacks_and_what_to_do() -> None:
    schema = run_schema()
    status = as_object(as_object(as_object(schema["properties"])["status"])["properties"])
    del status["queue"]
    attempt = as_object(as_object(status["attempts"])["items"])
    del as_object(attempt["properties"])["headIdentity"]

    complaint = complaint_about_runs(openapi("TrainingRun", schema))

    assert {"status.queue", "status.attempts.headIdentity"} <= set(re.split("[ ,;]+", complaint))
    assert complaint.endswith("or upgrade the release that installed it.")


def test_an_older_kuberay_is_named() -> None:
    old: JsonObject = {"properties": {"spec": {"properties": {"entrypoint": {"type": "string"}}}}}
    new: JsonObject = {"properties": {"spec": {"properties": {"preRunningDeadlineSeconds": {}}}}}

    assert complaint_about_jobs(openapi("RayJob", old)) == (
        "CRD of RayJob: got one without spec.preRunningDeadlineSeconds; expected that field. "
        "Upgrade KubeRay to 1.7."
    )
    assert complaint_about_jobs(openapi("RayJob", new)) == ""


def old_kuberay() -> Cluster:
    """Return an API server with the TrainingRuns of this release, and RayJobs of KubeRay 1.6."""
    runs = openapi("TrainingRun", run_schema())
    jobs = openapi("RayJob", {"properties": {"spec": {"properties": {"entrypoint": {}}}}})

    async def answer(request: Request) -> Answer:
        match request.method, request.path:
            case "GET", path:
                said = jobs if "ray.io" in path else runs
                return Answer(HTTPStatus.OK, json.dumps(said).encode())
            case _:
                text = 'strict decoding error: unknown field "spec.preRunningDeadlineSeconds"'
                return refusal(HTTPStatus.BAD_REQUEST, text)

    return ApiServer().connect(answer)


async def test_an_older_kuberay_keeps_no_run_of_a_shared_cluster_from_its_controller() -> None:
    async with asyncio.timeout(2):
        await wait_for_crds(old_kuberay())


async def test_a_run_with_a_cluster_of_its_own_is_refused_by_an_older_kuberay() -> None:
    with pytest.raises(RefusedError, match=r"Upgrade KubeRay to 1\.7"):
        await old_kuberay().create_job({"metadata": {"name": "digits-1", "namespace": "team"}})


def test_what_cannot_be_read_is_no_reason_to_complain() -> None:
    assert complaint_about_runs({}) == ""
