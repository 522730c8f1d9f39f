"""`trainshed submit FILE`: train on a Ray cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from trainshed.cli.cluster import access_options, connect, follow_run
from trainshed.cli.run_file import file_options
from trainshed.jobs.submission import submit as send
from trainshed_api.loading import load_file

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.jobs.access import DashboardAccess


@click.command()
@file_options
@click.option("--fresh", is_flag=True, help="Start over; files of earlier attempts stay.")
@click.option(
    "--follow/--no-wait", default=True, help="Show progress until the run ends, or return at once."
)
@access_options
def submit(
    file: Path,
    settings: tuple[str, ...],
    fresh: bool,
    follow: bool,
    access: DashboardAccess,
) -> None:
    """Submit FILE as a job to a Ray cluster, or follow its job.

    A job that is running is followed. The job checks data, storage and code in the cluster.
    Ctrl-C stops following; the job continues.
    """
    run = load_file(file, settings)
    jobs = connect(access)
    job_id, runs = send(jobs, run, file.absolute().parent, fresh=fresh)
    if not follow:
        click.echo(job_id)
        return
    click.echo(f"{job_id} {'is running already' if runs else 'was submitted'}", err=True)
    sys.exit(follow_run(jobs, jobs.get(job_id)))
