"""Dashboards of many clusters behind one port of this machine: /NAMESPACE/CLUSTER/api/jobs/.

Each head has its own memory of jobs. Where a cluster has no head just now, the connection breaks,
as it does in front of a Service without a Pod.
"""

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from aiohttp import web
from pydantic import ValidationError

from tests.kuberay.jobs_api import AlreadyExistsError, ChooseDriver, JobsHead, LiveJob, Submission

_HEAD = web.RequestKey("head", JobsHead)
_JOB_PATH = "/api/jobs/{job}"
_Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Submitted:
    """A job that a head took: for tests that count drivers."""

    namespace: str
    cluster: str
    head: str
    job: LiveJob


@dataclass
class _Head:
    identity: str
    token: str | None
    jobs: JobsHead


class Dashboards:
    """The dashboards, to be used as `async with Dashboards(choose) as dashboards`."""

    def __init__(self, choose: ChooseDriver, *, setup_seconds: float = 0.0) -> None:
        self.choose = choose
        """The driver of each submission; tests may change it at any time."""
        self.submitted: list[Submitted] = []
        """All jobs that any head took, in order."""
        self.num_looks = 0
        """How often any head was asked how a job does."""
        self._setup_seconds = setup_seconds
        self._heads: dict[tuple[str, str], _Head] = {}
        # Not 0: to aiohttp that means to wait for every handler, however long.
        self._runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=0.1)
        self.url_template = ""
        """Where a dashboard is, of {namespace} and {cluster}."""

    async def __aenter__(self) -> Self:
        """Listen on a free port of this machine."""
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url_template = f"http://{host}:{port}/{{namespace}}/{{cluster}}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all heads."""
        for namespace, cluster in list(self._heads):
            await self.end_head(namespace, cluster)
        await self._runner.cleanup()

    def start_head(
        self, namespace: str, cluster: str, identity: str = "head", *, token: str | None = None
    ) -> JobsHead:
        """Begin a head with an empty memory."""

        def choose(submission: Submission) -> Callable[[LiveJob], Awaitable[int]]:
            driver = self.choose(submission)

            async def drive(job: LiveJob) -> int:
                self.submitted.append(Submitted(namespace, cluster, identity, job))
                return await driver(job)

            return drive

        jobs = JobsHead(choose, setup_seconds=self._setup_seconds)
        self._heads[namespace, cluster] = _Head(identity, token, jobs)
        return jobs

    async def end_head(self, namespace: str, cluster: str) -> None:
        """End a head: what it knew is lost, its drivers are killed."""
        head = self._heads.pop((namespace, cluster), None)
        if head is not None:
            await head.jobs.close()

    def jobs(self, namespace: str, cluster: str) -> dict[str, LiveJob]:
        """Return the jobs that the cluster's head of now knows, by id."""
        head = self._heads.get((namespace, cluster))
        return head.jobs.jobs if head else {}

    def identity(self, namespace: str, cluster: str) -> str | None:
        """Return which head the cluster has now."""
        head = self._heads.get((namespace, cluster))
        return head.identity if head else None

    def _app(self) -> web.Application:
        cluster = web.Application(middlewares=[self._find_head])
        cluster.add_routes(
            [
                web.get("/{namespace}/{cluster}/api/version", _version),
                web.get("/{namespace}/{cluster}/api/jobs/", _list),
                web.post("/{namespace}/{cluster}/api/jobs/", _submit),
                web.get("/{namespace}/{cluster}" + _JOB_PATH, self._get),
                web.delete("/{namespace}/{cluster}" + _JOB_PATH, _delete),
                web.post("/{namespace}/{cluster}" + _JOB_PATH + "/stop", _stop),
                web.get("/{namespace}/{cluster}" + _JOB_PATH + "/logs", _logs),
            ]
        )
        return cluster

    async def _get(self, request: web.Request) -> web.Response:
        self.num_looks += 1
        return web.json_response(_job(request).details())

    @web.middleware
    async def _find_head(self, request: web.Request, handler: _Answer) -> web.StreamResponse:
        key = request.match_info.get("namespace", ""), request.match_info.get("cluster", "")
        head = self._heads.get(key)
        if head is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=503)
        if head.token is not None and (refusal := _refusal(request, head.token)):
            return refusal
        request[_HEAD] = head.jobs
        return await handler(request)


def _refusal(request: web.Request, token: str) -> web.Response | None:
    given = request.headers.get("Authorization") or request.headers.get("X-Ray-Authorization")
    if not given:
        return web.Response(status=401, text="Unauthorized: Missing authentication token")
    if given != f"Bearer {token}":
        return web.Response(status=403, text="Forbidden: Invalid authentication token")
    return None


def _job(request: web.Request) -> LiveJob:
    name = request.match_info["job"]
    job = request[_HEAD].jobs.get(name)
    if job is None:
        raise web.HTTPNotFound(text=f"Job {name} does not exist")
    return job


async def _version(request: web.Request) -> web.Response:
    return web.json_response({"version": "4", "ray_version": "2.60.0"})


async def _list(request: web.Request) -> web.Response:
    return web.json_response([job.details() for job in request[_HEAD].jobs.values()])


async def _submit(request: web.Request) -> web.Response:
    given = await request.json()
    try:
        submission = Submission.model_validate(
            {key: value for key, value in given.items() if value is not None}
        )
        name = request[_HEAD].submit(submission)
    except ValidationError:
        return web.Response(status=400, text=traceback.format_exc())
    except AlreadyExistsError:
        return web.Response(status=500, text=traceback.format_exc())
    return web.json_response({"job_id": name, "submission_id": name})


async def _delete(request: web.Request) -> web.Response:
    job = _job(request)
    if job.end_time is None:
        text = f"Attempted to delete job '{job.submission_id}', "
        text += f"but it is in a non-terminal state {job.status}."
        return web.Response(status=500, text=text)
    del request[_HEAD].jobs[job.submission_id]
    return web.json_response({"deleted": True})


async def _stop(request: web.Request) -> web.Response:
    return web.json_response({"stopped": request[_HEAD].stop(_job(request))})


async def _logs(request: web.Request) -> web.Response:
    return web.json_response({"logs": _job(request).logs})
