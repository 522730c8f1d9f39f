"""Ray's Jobs API on one head, with drivers that tests write: what Ray 2.60 answers, without Ray.

A driver is a coroutine that returns the exit code of the entrypoint. What it needs it finds in the
LiveJob; a stop sets `stop_requested`, and it is cancelled where it goes on for too long after that.
"""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictStr

from tests.kuberay.resources import Manifest

TERMINAL = {"STOPPED", "SUCCEEDED", "FAILED"}
_STOP_WAIT_SECONDS = 3  # Ray's default, for what does not set RAY_JOB_STOP_WAIT_TIME_S
_LOG_LINES_IN_MESSAGE = 10
_LOG_CHARACTERS_IN_MESSAGE = 20_000
_MESSAGES = {
    "RUNNING": "Job is currently running.",
    "STOPPED": "Job was intentionally stopped.",
    "SUCCEEDED": "Job finished successfully.",
}


def _milliseconds() -> int:
    return int(time.time() * 1000)


class Submission(BaseModel):
    """What POST /api/jobs/ takes."""

    model_config = ConfigDict(extra="forbid")

    entrypoint: StrictStr
    submission_id: StrictStr | None = None
    job_id: StrictStr | None = None
    runtime_env: dict[str, JsonValue] | None = None
    metadata: dict[str, StrictStr] | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    entrypoint_label_selector: dict[str, str] | None = Field(default=None)

    @property
    def env(self) -> dict[str, str]:
        """The environment variables of the job's runtime environment."""
        found = (self.runtime_env or {}).get("env_vars")
        return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


@dataclass
class LiveJob:
    """A job on a head, as its driver and the tests see it."""

    submission_id: str
    submission: Submission
    status: str = "PENDING"
    message: str = ""
    error_type: str | None = None
    start_time: int = field(default_factory=_milliseconds)
    end_time: int | None = None
    exit_code: int | None = None
    lines: list[str] = field(default_factory=list)
    stop_requested: asyncio.Event = field(default_factory=asyncio.Event)

    def log(self, line: str) -> None:
        """Print a line into the job's log."""
        self.lines.append(line)

    @property
    def logs(self) -> str:
        """The job's log as a whole."""
        return "".join(f"{line}\n" for line in self.lines)

    def details(self) -> Manifest:
        """Return what GET /api/jobs/ID answers."""
        return {
            "type": "SUBMISSION",
            "job_id": None,
            "submission_id": self.submission_id,
            "driver_info": None,
            "status": self.status,
            "entrypoint": self.submission.entrypoint,
            "message": self.message,
            "error_type": self.error_type,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "metadata": {**self.submission.metadata} if self.submission.metadata else None,
            "runtime_env": self.submission.runtime_env,
            "driver_agent_http_address": None,
            "driver_node_id": None,
            "driver_exit_code": self.exit_code,
        }


Driver = Callable[[LiveJob], Awaitable[int]]
ChooseDriver = Callable[[Submission], Driver]


class AlreadyExistsError(Exception):
    """Ray remembers ids: one that was used once never runs again."""

    def __init__(self, submission_id: str) -> None:
        super().__init__(
            f"Job with submission_id {submission_id} already exists. "
            "Please use a different submission_id."
        )


class JobsHead:
    """The jobs of one head: gone with it."""

    def __init__(self, choose: ChooseDriver, *, setup_seconds: float = 0.0) -> None:
        self._choose, self._setup_seconds = choose, setup_seconds
        self.jobs: dict[str, LiveJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, submission: Submission) -> str:
        """Take a job; return its id. Raises AlreadyExistsError for an id that was used before."""
        submission_id = submission.submission_id or submission.job_id
        submission_id = submission_id or f"raysubmit_{len(self.jobs):016d}"
        if submission_id in self.jobs:
            raise AlreadyExistsError(submission_id)
        job = LiveJob(submission_id, submission, message=_pending_message(submission))
        self.jobs[submission_id] = job
        task = asyncio.create_task(self._run(job, self._choose(submission)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return submission_id

    def stop(self, job: LiveJob) -> bool:
        """Ask a job to end; return whether there was something to ask."""
        job.stop_requested.set()
        return job.status not in TERMINAL

    async def close(self) -> None:
        """End as a head ends: drivers are killed and nothing is written down."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, job: LiveJob, driver: Driver) -> None:
        await asyncio.sleep(self._setup_seconds)
        job.log(f"Running entrypoint for job {job.submission_id}: {job.submission.entrypoint}")
        _move(job, "RUNNING")
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(_exit_code(job, driver))
            stop = tasks.create_task(job.stop_requested.wait())
            await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if job.stop_requested.is_set():
                wait = job.submission.env.get("RAY_JOB_STOP_WAIT_TIME_S", _STOP_WAIT_SECONDS)
                await asyncio.wait({running}, timeout=float(wait))
                running.cancel()
                _move(job, "STOPPED")
            else:
                _end(job, running.result())


async def _exit_code(job: LiveJob, driver: Driver) -> int:
    """Run the driver; one that raises prints its traceback and ends with 1, as Python does."""
    outcome = (await asyncio.gather(driver(job), return_exceptions=True))[0]
    if isinstance(outcome, Exception):
        job.lines += "".join(traceback.format_exception(outcome)).splitlines()
        return 1
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _pending_message(submission: Submission) -> str:
    message = "Job has not started yet."
    if any(
        (
            submission.entrypoint_num_cpus,
            submission.entrypoint_num_gpus,
            submission.entrypoint_memory,
            submission.entrypoint_resources,
        )
    ):
        message += " It may be waiting for resources (CPUs, GPUs, memory, custom resources)"
        message += " to become available."
    if submission.runtime_env:
        message += " It may be waiting for the runtime environment to be set up."
    return message


def _move(job: LiveJob, status: str, message: str | None = None) -> None:
    job.status = status
    job.message = _MESSAGES[status] if message is None else message
    if status in TERMINAL:
        job.end_time = _milliseconds()


def _end(job: LiveJob, exit_code: int) -> None:
    job.exit_code = exit_code
    if exit_code == 0:
        _move(job, "SUCCEEDED")
        return
    job.error_type = "JOB_ENTRYPOINT_COMMAND_ERROR"
    tail = "".join(f"{line}\n" for line in job.lines[-_LOG_LINES_IN_MESSAGE:])
    text = f"Job entrypoint command failed with exit code {exit_code}"
    if tail:
        text += ", last available logs (truncated to 20,000 chars):\n"
        text += tail[-_LOG_CHARACTERS_IN_MESSAGE:]
    else:
        text += ". No logs available."
    _move(job, "FAILED", text)
