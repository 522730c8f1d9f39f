"""Follows a job: its log as it grows, the events in it on the display, until it is over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from trainshed.jobs.cluster_error import ClusterError
from trainshed_api.names import EXIT_TRY_AGAIN, SNAPSHOT_LINE
from trainshed_api.progress import parse_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.display.choice import Display
    from trainshed.jobs.jobs_api import Job, Jobs

# A port-forward breaks now and then; a cluster that stays away for a minute is gone.
MOST_TRIES = 60
SECONDS_BETWEEN_TRIES = 1.0


async def follow(
    jobs: Jobs,
    job_id: str,
    take: Callable[[str], None],
    pause_seconds: float = SECONDS_BETWEEN_TRIES,
) -> Job:
    """Hand over each line of a job's log once, and return the job when it is over.

    Args:
        jobs: of the cluster.
        job_id: of the job.
        take: what a line is handed to.
        pause_seconds: between one connection and the next.

    Raises:
        ClusterError: when the cluster stays away, or does not know the job.
    """
    taken, tries = 0, 0
    while True:
        try:
            taken = await _tail(jobs, job_id, taken, take)
            job = await asyncio.to_thread(jobs.get, job_id)
        except (ClusterError, aiohttp.ClientError, OSError, RuntimeError) as error:
            if isinstance(error, ClusterError) and error.exit_code != EXIT_TRY_AGAIN:
                raise
            tries += 1
            if tries > MOST_TRIES:
                message = f"no answer about {job_id} in {tries} tries; it may still run ({error})"
                raise ClusterError(message, EXIT_TRY_AGAIN) from None
        else:
            tries = 0
            if job.is_over:
                return job
        await asyncio.sleep(pause_seconds)


async def _tail(jobs: Jobs, job_id: str, taken: int, take: Callable[[str], None]) -> int:
    """Hand over the lines after the first `taken` ones; return how many there were in all."""
    position, rest = 0, ""
    try:
        async for piece in jobs.tail(job_id):
            *lines, rest = (rest + piece).split("\n")
            for line in lines:
                position += 1
                if position > taken:
                    take(line)
                    taken = position
    except (aiohttp.ClientError, OSError, RuntimeError):
        if position == 0:
            raise
        return max(taken, position)  # never read the same output twice
    if rest and position + 1 > taken:
        take(rest)
        taken = position + 1
    return taken


@dataclass
class LogReader:
    """Tells a driver's events from all else that it prints.

    Args:
        display: of the events.
        say: takes all other lines.
        since: seconds since 1970; older events are those of a job of the same id before.
    """

    display: Display
    say: Callable[[str], None]
    since: float

    def take(self, line: str) -> None:
        """Take the next line in."""
        if line.startswith("{"):
            try:
                event = parse_event(line)
            except ValueError:
                pass
            else:
                if event.time >= self.since:
                    self.display.show(event)
                return
        if not line.startswith(SNAPSHOT_LINE):
            self.say(line)
