"""The head of a RayCluster: its memory of jobs, its drivers, and a dashboard that may be silent."""

# ruff: noqa: ARG002  # asked as JobsApi is, for one namespace

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

OVER = ("SUCCEEDED", "FAILED", "STOPPED")
_ANSWER_SECONDS = 0.05
# RAY_JOB_STOP_WAIT_TIME_S
_STOP_SECONDS = 30.0


class Program(Protocol):
    """What runs on a head.

    log: what it printed so far.
    """

    log: str

    async def live(self) -> int:
        """Return the exit code."""

    def terminate(self) -> None:
        """Ask it to end."""


@dataclass
class Job:
    """A job as Ray knows it."""

    program: Program
    status: str = "PENDING"
    message: str = ""
    task: asyncio.Task[None] | None = None
    stopped: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it ended."""
        return self.status in OVER

    def end(self, code: int) -> None:
        """Take down how its program ended; below zero: by a signal."""
        if self.stopped:
            self.status = "STOPPED"
        elif code == 0:
            self.status, self.message = "SUCCEEDED", "Job finished successfully."
        else:
            self.status = "FAILED"
            self.message = (
                f"Job entrypoint command failed with exit code {code}" if code > 0 else ""
            )

    def kill(self, status: str) -> None:
        """End it by SIGKILL."""
        if self.task:
            self.task.cancel()
        self.status = status


@dataclass
class Head:
    """One container of a head.

    identity: changes with it. answers: whether its dashboard does, and since when.
    """

    identity: str
    answers_since: float
    alive: bool = True
    answers: bool = True
    jobs: dict[str, Job] = field(default_factory=dict)

    def submit(self, job_id: str, program: Program, after: float) -> None:
        """Run the program; Ray remembers the id."""
        job = self.jobs[job_id] = Job(program)
        job.task = asyncio.create_task(self._run(job, after))

    async def _run(self, job: Job, after: float) -> None:
        await asyncio.sleep(after)
        if job.stopped:
            job.status = "STOPPED"
            return
        job.status = "RUNNING"
        job.end(await job.program.live())

    async def stop(self, job_id: str, grace_seconds: float) -> None:
        """Ask the program to end, and kill it after its grace; returns before it has ended."""
        job = self.jobs.get(job_id)
        if job is None or job.is_over or job.stopped:
            return
        job.stopped = True
        job.program.terminate()
        asyncio.get_running_loop().call_later(grace_seconds, self._kill, job)

    def _kill(self, job: Job) -> None:
        if not job.is_over:
            job.kill("STOPPED")

    def die(self) -> None:
        """End with all that runs on it."""
        self.alive = False
        for job in self.jobs.values():
            if job.task:
                job.task.cancel()
            if not job.is_over:
                job.status = "GONE"


class Heads:
    """Those that are there, by RayCluster; what the controller asks of their dashboards."""

    def __init__(self) -> None:
        self.of: dict[str, Head] = {}

    def answering(self, cluster: str) -> Head | None:
        """Return the head if its dashboard answers."""
        head = self.of.get(cluster)
        return head if head and head.alive and head.answers else None

    async def is_over(
        self, namespace: str, cluster: str, job_id: str, seconds: float = 10.0
    ) -> bool | None:
        """Answer as JobsApi does."""
        head = await self._reach(cluster, seconds)
        if head is None:
            return None
        job = head.jobs.get(job_id)
        return job is None or job.is_over

    async def read_log(
        self, namespace: str, cluster: str, job_id: str, seconds: float = 10.0
    ) -> str:
        """Answer as JobsApi does."""
        head = await self._reach(cluster, seconds)
        job = head.jobs.get(job_id) if head else None
        return job.program.log if job else ""

    async def stop(self, namespace: str, cluster: str, job_id: str, seconds: float = 10.0) -> None:
        """Do as JobsApi does."""
        head = await self._reach(cluster, seconds)
        if head:
            await head.stop(job_id, _STOP_SECONDS)

    async def close(self) -> None:
        """Let go of nothing."""

    async def _reach(self, cluster: str, seconds: float) -> Head | None:
        head = self.answering(cluster)
        await asyncio.sleep(_ANSWER_SECONDS if head else seconds)
        return head
