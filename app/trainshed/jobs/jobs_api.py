"""Ray's Jobs API with types, and with one clear line for each way in which a cluster may refuse.

The calls are those of Ray's own client; whether there is a cluster, which one, and whether it lets
us in is asked before, because that client waits for ever and answers with traces.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from trainshed.jobs.cluster_error import ClusterError
from trainshed_api.names import EXIT_APPLICATION, EXIT_INVALID, EXIT_TRY_AGAIN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from pydantic import JsonValue
    from ray.job_submission import JobDetails, JobSubmissionClient

    from trainshed.jobs.access import DashboardAccess

# The run requires this release; a cluster with an older one would only fail later.
OLDEST_RAY = (2, 60)
SECONDS_TO_CONNECT = 10.0
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404
OVER = ("SUCCEEDED", "FAILED", "STOPPED")
_STATUS_CODE = re.compile(r"status code (\d+)")
# They tell of each call and each connection.
NOISY = ("ray.dashboard.modules.job.sdk", "ray.dashboard.modules.dashboard_sdk")
# Ray's client lets both win over the address that it is given.
_OVERRIDING = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Job:
    """A job as the cluster knows it.

    Args:
        id: of its submission.
        status: PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED.
        message: of Ray's.
        started: seconds since 1970.
        ended: seconds since 1970; None while it goes on.
        exit_code: of its driver; None when it goes on, was stopped or never began.
    """

    id: str
    status: str
    message: str
    started: float
    ended: float | None
    exit_code: int | None

    @property
    def is_over(self) -> bool:
        """Say whether nothing more comes of it."""
        return self.status in OVER


class Jobs:
    """The jobs of one cluster.

    Args:
        access: how it is reached.

    Raises:
        ClusterError: when nobody answers, or not as a cluster of ours does; so do all methods.
    """

    def __init__(self, access: DashboardAccess) -> None:
        self._access = access
        check_cluster(access)
        from ray.job_submission import JobSubmissionClient

        for name in NOISY:
            logging.getLogger(name).setLevel(logging.WARNING)
        with _without(_OVERRIDING):
            self._client: JobSubmissionClient = self._ask(
                "", lambda: JobSubmissionClient(access.address, headers=dict(access.headers))
            )

    @property
    def address(self) -> str:
        """Return where the cluster is reached."""
        return self._access.address

    def list(self) -> list[Job]:
        """Return all submitted jobs, the oldest first."""
        found = self._ask("", self._client.list_jobs)
        jobs = [_job(details) for details in found if details.submission_id]
        return sorted(jobs, key=lambda job: job.started)

    def get(self, job_id: str) -> Job:
        """Return one job."""
        return _job(self._ask(job_id, lambda: self._client.get_job_info(job_id)))

    def submit(self, job_id: str, entrypoint: str, runtime_env: Mapping[str, JsonValue]) -> None:
        """Send a job; a local working directory is uploaded first."""
        self._ask(
            job_id,
            lambda: self._client.submit_job(
                entrypoint=entrypoint, submission_id=job_id, runtime_env=dict(runtime_env)
            ),
        )

    def stop(self, job_id: str) -> None:
        """Ask a job to end."""
        self._ask(job_id, lambda: self._client.stop_job(job_id))

    def delete(self, job_id: str) -> None:
        """Let the cluster forget a job that is over."""
        self._ask(job_id, lambda: self._client.delete_job(job_id))

    def logs(self, job_id: str) -> str:
        """Return what a job has printed so far."""
        return self._ask(job_id, lambda: self._client.get_job_logs(job_id))

    def tail(self, job_id: str) -> AsyncIterator[str]:
        """Yield what a job has printed and prints, in pieces; connection errors fly."""
        return self._client.tail_job_logs(job_id)

    def _ask(self, job_id: str, call: Callable[[], Answer]) -> Answer:
        """Return what a call returns, its errors said in one line."""
        from ray.exceptions import AuthenticationError

        try:
            return call()
        except (RuntimeError, AuthenticationError) as error:
            raise ClusterError(*self._explain(job_id, str(error))) from None
        except OSError as error:  # requests' own errors are some
            message = f"{self._access.address} no longer answers ({_name(error)})"
            raise ClusterError(message, EXIT_TRY_AGAIN) from None

    def _explain(self, job_id: str, said: str) -> tuple[str, int]:
        found = _STATUS_CODE.search(said)
        code = int(found[1]) if found else 0
        if code == NOT_FOUND and job_id:
            return f"{self._access.address} knows no job {job_id}", EXIT_INVALID
        later = "try again later" in said  # its head has just started
        exit_code = EXIT_TRY_AGAIN if later else EXIT_APPLICATION
        return f"{self._access.address}: {said.splitlines()[0]}", exit_code


def check_cluster(access: DashboardAccess) -> None:
    """Find out whether there is a Ray cluster that takes jobs from us.

    Raises:
        ClusterError: saying what is there instead.
    """
    where = access.address
    version = _get(access, "/api/version")
    ray = version.get("ray_version") if isinstance(version, dict) else None
    if not isinstance(ray, str):
        raise ClusterError(f"{where} answers, but is not a Ray dashboard", EXIT_INVALID)
    if tuple(int(part) for part in re.findall(r"\d+", ray)[:2]) < OLDEST_RAY:
        oldest = ".".join(str(part) for part in OLDEST_RAY)
        raise ClusterError(f"{where} has Ray {ray}: expected {oldest} or newer", EXIT_INVALID)
    if not isinstance(_get(access, "/api/jobs/"), list):
        message = f"{where} accepts no jobs: its Ray was installed without ray[default]"
        raise ClusterError(message, EXIT_INVALID)


def _get(access: DashboardAccess, path: str) -> JsonValue:
    """Return the JSON behind a path; None where there is none."""
    where = access.address
    request = urllib.request.Request(where + path, headers=dict(access.headers))
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_TO_CONNECT) as response:
            return cast("JsonValue", json.load(response))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == UNAUTHORIZED:
            wants = "wants a token: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or give --token-file"
            raise ClusterError(f"{where} {wants}", EXIT_INVALID) from None
        if error.code == FORBIDDEN:
            token = f"the token of {access.token_from}" if access.token_from else "us"
            raise ClusterError(f"{where} refuses {token} (403)", EXIT_INVALID) from None
        return None
    except (OSError, http.client.HTTPException) as error:
        message = f"{where} does not answer ({_name(error)}): is it the dashboard's address?"
        raise ClusterError(message, EXIT_TRY_AGAIN) from None
    except ValueError:  # no JSON
        return None


def _name(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    inner = reason if isinstance(reason, OSError) else error
    strerror = inner.strerror if isinstance(inner, OSError) else None
    return strerror or str(inner) or type(inner).__name__


def _job(details: JobDetails) -> Job:
    return Job(
        id=details.submission_id or "",
        status=details.status.value,
        message=details.message or "",
        started=(details.start_time or 0) / 1000,
        ended=details.end_time / 1000 if details.end_time else None,
        exit_code=details.driver_exit_code,
    )


@contextlib.contextmanager
def _without(names: Iterable[str]) -> Iterator[None]:
    """Hide variables of the environment inside the block."""
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
