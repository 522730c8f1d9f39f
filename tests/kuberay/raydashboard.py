"""Ray's Jobs API as KubeRay asks it."""

import json
from dataclasses import dataclass

import aiohttp
import yaml

from tests.kuberay.api import TryAgainError
from tests.kuberay.rayresources import RayJob
from tests.kuberay.resources import Manifest

TERMINAL = {"STOPPED", "SUCCEEDED", "FAILED"}


class DashboardError(TryAgainError):
    """The dashboard did not answer, or not as it should."""


@dataclass(frozen=True)
class JobInfo:
    """What Ray says of a job; times are milliseconds since 1970."""

    status: str
    message: str
    start_time: int
    end_time: int


class Dashboard:
    """The Jobs API of one cluster."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str | None) -> None:
        self._session, self._url = session, url
        self._headers = {"x-ray-authorization": f"Bearer {token}"} if token else {}

    async def job_info(self, job_id: str) -> JobInfo | None:
        """Return what Ray says of the job, or None if it says 404.

        As in KubeRay, only 404 is looked at: any other answer counts if it is JSON.
        """
        status, text = await self._ask("GET", f"/api/jobs/{job_id}")
        if status == 404:
            return None
        answer = _parse(text, "GetJobInfo")
        return JobInfo(
            status=str(answer.get("status") or ""),
            message=str(answer.get("message") or ""),
            start_time=_integer(answer.get("start_time")),
            end_time=_integer(answer.get("end_time")),
        )

    async def submit(self, job: RayJob) -> None:
        """Submit the job under the id of its status."""
        status, text = await self._ask("POST", "/api/jobs/", _submission(job))
        if status >= 300:
            raise DashboardError(f"SubmitJob fail: {status} {text}")

    async def stop(self, job_id: str) -> None:
        """Ask Ray to stop the job."""
        _, text = await self._ask("POST", f"/api/jobs/{job_id}/stop")
        if not _parse(text, "StopJob").get("stopped"):
            info = await self.job_info(job_id)
            if info is None or info.status not in TERMINAL:
                raise DashboardError(f"failed to stop job: {info}")

    async def _ask(self, method: str, path: str, body: Manifest | None = None) -> tuple[int, str]:
        try:
            async with self._session.request(
                method, self._url + path, json=body, headers=self._headers
            ) as answer:
                return answer.status, await answer.text()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise DashboardError(f"{method} {self._url}{path}: {error!r}") from error


def _parse(text: str, what: str) -> Manifest:
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise DashboardError(f"{what} fail: {text}") from error
    if not isinstance(answer, dict):
        raise DashboardError(f"{what} fail: {text}")
    parsed: Manifest = answer
    return parsed


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0


def _submission(job: RayJob) -> Manifest:
    spec = job.spec
    fields: Manifest = {
        "submission_id": job.status.job_id,
        "metadata": {**spec.metadata},
        "runtime_env": yaml.safe_load(spec.runtime_env_yaml or "{}"),
        "entrypoint_num_cpus": spec.entrypoint_num_cpus,
        "entrypoint_num_gpus": spec.entrypoint_num_gpus,
        "entrypoint_resources": json.loads(spec.entrypoint_resources or "{}"),
    }
    given: Manifest = {key: value for key, value in fields.items() if value}
    return {"entrypoint": spec.entrypoint, **given}
