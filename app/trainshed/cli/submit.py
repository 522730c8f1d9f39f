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
    click.echo(f"{job_id} {'is running already' if runs else 'was submitted'}", err=True)
    sys.exit(follow_run(jobs, jobs.get(job_id)))
