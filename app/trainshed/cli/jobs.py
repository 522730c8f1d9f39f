"""`trainshed status`, `logs`, `stop`, `list` and `delete`: the jobs of a Ray cluster."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING

import click

from trainshed.cli.cluster import access_options, connect
from trainshed.cli.run_location import is_place, open_place
from trainshed.display.formatting import say_duration
from trainshed_api.names import EXIT_INVALID

if TYPE_CHECKING:
    from trainshed.jobs.access import DashboardAccess
    from trainshed.jobs.jobs_api import Job, Jobs

SECONDS_BETWEEN_LOOKS = 0.5


@click.command()
@click.argument("job_id", metavar="ID")
@access_options
def status(job_id: str, access: DashboardAccess) -> None:
    """Show the status of the job ID."""
    job = connect(access).get(job_id)
    click.echo(_line(job, len(job.id)))
    if job.message and not job.exit_code:  # else it is the end of the log
        click.echo(job.message)


@click.command(name="list")
@access_options
def list_jobs(access: DashboardAccess) -> None:
    """List the jobs of the cluster, the oldest first."""
    jobs = connect(access).list()
    width = max((len(job.id) for job in jobs), default=0)
    for job in jobs:
        click.echo(_line(job, width))


@click.command()
@click.argument("named", metavar="ID|FOLDER")
@click.option("--follow", is_flag=True, help="Follow the log until the job ends.")
@click.option(
    "--attempt", type=click.IntRange(min=1), help="Attempt of a FOLDER. Default: the last one."
)
@click.option(
    "--tail",
    type=click.IntRange(min=1),
    help="Last lines of each log of a FOLDER. Default: all lines.",
)
@access_options
def logs(
    named: str,
    follow: bool,
    attempt: int | None,
    tail: int | None,
    access: DashboardAccess,
) -> None:
    """Print the log of the job ID; events are JSON objects, one a line.

    With the path or address of a run's FOLDER, print the logs that the driver and the workers of
    its last attempt stored there.
    """
    if is_place(named):
        if follow:
            raise click.UsageError(f"--follow: got the folder {named}; expected a job ID")
        from trainshed.cli import stored_logs

        stored_logs.show(open_place(named), attempt, tail)
        return
    if attempt is not None or tail is not None:
        raise click.UsageError(f"--attempt and --tail are for a run's folder, {named} is none")
    jobs = connect(access)
    if not follow:
        click.echo(jobs.logs(named), nl=False)
        return
    from trainshed.jobs.follow import follow as follow_job

    asyncio.run(follow_job(jobs, named, click.echo))


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--no-wait", is_flag=True, help="Return without waiting until the job has stopped.")
@access_options
def stop(
    job_id: str,
    no_wait: bool,
    access: DashboardAccess,
) -> None:
    """Stop the job ID; it has gracePeriodSeconds to write a checkpoint."""
    jobs = connect(access)
    job = jobs.get(job_id)
    if not job.is_over:
        jobs.stop(job_id)
        job = job if no_wait else _wait(jobs, job_id)
    click.echo(f"{job_id} {job.status if job.is_over else 'is stopping'}")


@click.command()
@click.argument("job_id", metavar="ID")
@access_options
def delete(job_id: str, access: DashboardAccess) -> None:
    """Delete the finished job ID from the cluster; the run's folder on storage stays."""
    from trainshed.jobs.cluster_error import ClusterError

    jobs = connect(access)
    job = jobs.get(job_id)
    if not job.is_over:
        raise ClusterError(f"{job_id} is {job.status}: stop it first", EXIT_INVALID)
    jobs.delete(job_id)
    click.echo(f"{job_id} is deleted")


def _wait(jobs: Jobs, job_id: str) -> Job:
    while not (job := jobs.get(job_id)).is_over:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return job


def _line(job: Job, width: int) -> str:
    began = datetime.fromtimestamp(job.started).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    lasted = say_duration((job.ended or time.time()) - job.started)
    return f"{job.id:<{width}}  {job.status:<9}  {began}  {lasted}"
