"""Drivers for jobs on heads that are not there: what `Dashboards` runs instead of an entrypoint."""

import asyncio

from tests.kuberay.jobs_api import Driver, LiveJob

STOPPED_BY_SIGTERM = 143


def finish(*lines: str, exit_code: int = 0, after_seconds: float = 0.0) -> Driver:
    """Return a driver that prints the lines and ends with that code; a stop ends it at once."""

    async def drive(job: LiveJob) -> int:
        for line in lines:
            job.log(line)
        try:
            await asyncio.wait_for(job.stop_requested.wait(), after_seconds)
        except TimeoutError:
            return exit_code
        return STOPPED_BY_SIGTERM

    return drive


async def run_until_stopped(job: LiveJob) -> int:
    """Run for ever; a stop ends it at once."""
    await job.stop_requested.wait()
    return STOPPED_BY_SIGTERM


def ignore_stop(*lines: str) -> Driver:
    """Return a driver that prints the lines, runs for ever, and has to be killed."""

    async def drive(job: LiveJob) -> int:
        for line in lines:
            job.log(line)
        await asyncio.Event().wait()
        return 0

    return drive
