"""`trainshed submit FILE`: train on a Ray cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from trainshed.cli.cluster import access_options, connect, follow_run
from trainshed.cli.run_file import file_options
from trainshed.jobs.ids import choose_id
from trainshed.planning.code import local_folder
from trainshed_api.job import render_runtime_env
from trainshed_api.loading import load_file
from trainshed_api.names import JOB_ENTRYPOINT
from trainshed_api.spechash import spec_hash

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.jobs.access import DashboardAccess


@click.command()
@file_options
@click.option("--fresh", is_flag=True, help="Start over; files of earlier attempts are kept.")
@click.option(
    "--follow/--no-wait", default=True, help="Show the progress until the end, or only send it."
)
@access_options
def submit(
    file: Path,
    settings: tuple[str, ...],
    fresh: bool,
    follow: bool,
    access: DashboardAccess,
) -> None:
    """Train FILE on a Ray cluster, as a job; one of it that runs already is followed.

    Data, storage and code are checked in the cluster, where the run is. Ctrl-C leaves it alone.
    """
    run = load_file(file, settings)
    environment = render_runtime_env(run, {})
    folder = local_folder(run.spec.code, file.absolute().parent)
    if folder:
        environment["working_dir"] = str(folder)
    jobs = connect(access)
    job_id, runs = choose_id(run.metadata.name, spec_hash(run.spec), jobs.list())
    if not runs:
        jobs.submit(job_id, JOB_ENTRYPOINT + " --fresh" * fresh, environment)
    if not follow:
        click.echo(job_id)
        return
    click.echo(f"{job_id} {'runs already' if runs else 'was submitted'}", err=True)
    sys.exit(follow_run(jobs, jobs.get(job_id)))
