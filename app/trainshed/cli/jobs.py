"""`trainshed ps`, `logs`, `stop` and `delete`: runs on this machine and jobs of a Ray cluster."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from typing import TYPE_CHECKING

import click
from pydantic.alias_generators import to_camel

from trainshed.cli.cluster import access_options, connect, kubernetes_options
from trainshed.cli.run_location import is_address, is_place, open_place
from trainshed.display.formatting import say_duration, say_moment
from trainshed.jobs.cluster_error import ClusterError
from trainshed_api.errors import Problem, SpecError
from trainshed_api.names import EXIT_INVALID, EXIT_TRY_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

    from trainshed.jobs.access import DashboardAccess
    from trainshed.jobs.jobs_api import Job, Jobs
    from trainshed.jobs.kubectl import Kubectl
    from trainshed.jobs.local_runs import LocalRun

SECONDS_BETWEEN_LOOKS = 0.5


@click.command()
@click.argument("named", metavar="[NAME|ID|FOLDER]", required=False)
@click.option(
    "--ray", is_flag=True, help="Jobs of the Ray cluster instead of runs on this machine."
)
@click.option("--storage", metavar="FOLDER", help="Where runs are stored. Default: runs.")
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of the list; json: an object on each line.",
)
@kubernetes_options
@access_options
def ps(  # noqa: PLR0913, PLR0917 - the options of a command
    named: str | None,
    ray: bool,
    storage: str | None,
    output: str,
    cluster: Kubectl | None,
    access: DashboardAccess,
) -> None:
    """List the runs of this machine and their state, or one of them.

    Runs are those in the folder runs below TRAINSHED_HOME, or else below this folder. With --ray
    the jobs of a Ray cluster are listed, the oldest first, with -n or --context the TrainingRuns of
    a namespace.
    """
    if output == "json":
        local = _jobs(access, named) if ray else _runs(named, storage)
        for record in _objects(cluster, named) if cluster else local:
            click.echo(json.dumps(record))
    elif cluster:
        _list_objects(cluster, named)
    elif ray and named:
        _show_job(access, named)
    elif ray:
        _list_jobs(access)
    else:
        _list_local(named, storage)


@click.command()
@click.argument("job_id", metavar="ID")
@access_options
def status(job_id: str, access: DashboardAccess) -> None:
    """Show the status of the job ID. Use `ps --ray ID`."""
    click.echo(f"note: trainshed ps --ray {job_id} replaces this command", err=True)
    _show_job(access, job_id)


@click.command(name="list")
@access_options
def list_jobs(access: DashboardAccess) -> None:
    """List the jobs of the cluster, the oldest first. Use `ps --ray`."""
    click.echo("note: trainshed ps --ray replaces this command", err=True)
    _list_jobs(access)


def _show_job(access: DashboardAccess, job_id: str) -> None:
    job = connect(access).get(job_id)
    click.echo(_line(job, len(job.id)))
    if job.message and not job.exit_code:  # else it is the end of the log
        click.echo(job.message)


def _list_jobs(access: DashboardAccess) -> None:
    jobs = connect(access).list()
    width = max((len(job.id) for job in jobs), default=0)
    for job in jobs:
        click.echo(_line(job, width))


def _list_objects(cluster: Kubectl, named: str | None) -> None:
    from trainshed.jobs.kubectl import say_status

    runs = cluster.runs(*[named] if named else [])
    width = max((len(name) for name, _ in runs), default=0)
    for name, status in runs:
        if isinstance(status, ClusterError):
            click.echo(f"{name:<{width}}  {status}")
        else:
            click.echo(f"{name:<{width}}  attempt {status.attempt}  {say_status(status)}")


def _objects(cluster: Kubectl, named: str | None) -> Iterator[dict[str, JsonValue]]:
    """Yield each TrainingRun with its status, or with the reason why that cannot be read."""
    for name, status in cluster.runs(*[named] if named else []):
        if isinstance(status, ClusterError):
            yield {"name": name, "error": str(status)}
        else:
            shown = status.model_dump(mode="json", by_alias=True, exclude_none=True)
            yield {"name": name, "status": shown}


def _jobs(access: DashboardAccess, named: str | None) -> Iterator[dict[str, JsonValue]]:
    """Yield the jobs of a Ray cluster, or one of them."""
    jobs = connect(access)
    for job in [jobs.get(named)] if named else jobs.list():
        yield {to_camel(name): value for name, value in vars(job).items()}


def _runs(named: str | None, storage: str | None) -> Iterator[dict[str, JsonValue]]:
    """Yield the runs of this machine, or one of them."""
    for run in _local_runs(named, storage):
        yield {**vars(run), "folder": str(run.folder)}


def _local_runs(named: str | None, storage: str | None) -> list[LocalRun]:
    from trainshed.jobs.local_runs import local_runs
    from trainshed.planning.run_folders import default_storage

    if named is not None:
        return [_required(named)]
    runs = local_runs(open_place(storage) if storage else default_storage())
    if not runs:
        where = storage or default_storage()
        click.echo(f"no runs in {where}; --storage FOLDER lists others", err=True)
    return runs


def _list_local(named: str | None, storage: str | None) -> None:
    runs = _local_runs(named, storage)
    width = max((len(run.name) for run in runs), default=0)
    for run in runs:
        began = _moment(run.started)
        end = time.time() if run.is_running else run.ended
        lasted = say_duration(end - run.started if end else None)
        click.echo(
            f"{run.name:<{width}}  {run.status:<11}  attempt {run.attempt}  {began}  {lasted}  "
            f"{run.folder}"
        )


@click.command()
@click.argument("named", metavar="NAME|ID|FOLDER")
@click.option("--follow", is_flag=True, help="Follow the log until the job ends.")
@click.option(
    "--attempt", type=click.IntRange(min=1), help="Attempt of a FOLDER. Default: the last one."
)
@click.option(
    "--tail",
    type=click.IntRange(min=1),
    help="Last lines of each log of a FOLDER, or of a run in Kubernetes. Default: all lines.",
)
@kubernetes_options
@access_options
def logs(  # noqa: PLR0913, PLR0917 - the options of a command
    named: str,
    follow: bool,
    attempt: int | None,
    tail: int | None,
    cluster: Kubectl | None,
    access: DashboardAccess,
) -> None:
    """Print the log of a run or a job.

    With the NAME of a run on this machine, or the path or address of a run's FOLDER, print the
    logs that the driver and the workers of its last attempt stored there. In the log of the job ID,
    events are JSON objects, one a line.
    """
    if cluster:
        if attempt is not None:
            raise click.UsageError(
                f"--attempt: got {attempt}; expected no value with -n: only the log of the last "
                "attempt is in Kubernetes. Give the run's folder in storage instead of its name"
            )
        for line in cluster.log_lines(named, follow=follow, last=tail):
            click.echo(line, nl=False)
        return
    local = None if is_address(named) else _local(named)
    if local or is_place(named):
        if follow:
            expected = "the ID of a job, or -n and the name of a run in Kubernetes"
            raise click.UsageError(
                f"--follow: got {named}, a run on this machine or a folder; expected {expected}"
            )
        from trainshed.cli import stored_logs

        stored_logs.show(local.folder if local else open_place(named), attempt, tail)
        return
    if attempt is not None or tail is not None:
        raise click.UsageError(f"--attempt and --tail are for a run's folder, {named} is none")
    jobs = _jobs_with(named, access)
    if not follow:
        click.echo(jobs.logs(named), nl=False)
        return
    from trainshed.jobs.follow import follow as follow_job

    asyncio.run(follow_job(jobs, named, click.echo))


@click.command()
@click.argument("job_id", metavar="NAME|ID|FOLDER")
@click.option("--no-wait", is_flag=True, help="Return without waiting until the run has stopped.")
@kubernetes_options
@access_options
def stop(
    job_id: str,
    no_wait: bool,
    cluster: Kubectl | None,
    access: DashboardAccess,
) -> None:
    """Stop a run on this machine or the job ID after a checkpoint.

    gracePeriodSeconds remain for the checkpoint.
    """
    if cluster:
        _stop_object(cluster, job_id, no_wait=no_wait)
        return
    if local := _local(job_id):
        _stop_local(local, no_wait=no_wait)
        return
    jobs = _jobs_with(job_id, access)
    job = jobs.get(job_id)
    if not job.is_over:
        jobs.stop(job_id)
        job = job if no_wait else _wait(jobs, job_id)
    click.echo(f"{job_id} {job.status if job.is_over else 'is stopping'}")


@click.command()
@click.argument("job_id", metavar="ID")
@access_options
def delete(job_id: str, access: DashboardAccess) -> None:
    """Delete the finished job ID from the cluster; its files on storage stay."""
    jobs = connect(access)
    job = jobs.get(job_id)
    if not job.is_over:
        raise ClusterError(f"{job_id} is {job.status}: stop it first", EXIT_INVALID)
    jobs.delete(job_id)
    click.echo(f"{job_id} is deleted")


def _local(named: str) -> LocalRun | None:
    """Return the run on this machine that a text names; None if there is none."""
    from trainshed.jobs.local_runs import read_local_run
    from trainshed.planning.run_folders import run_folder

    return read_local_run(run_folder(named, "NAME"))


def _required(named: str) -> LocalRun:
    if local := _local(named):
        return local
    raise _unknown(named, "or --ray and the ID of a job")


def _jobs_with(named: str, access: DashboardAccess) -> Jobs:
    """Return the jobs of the cluster that may have a job of this name.

    Raises:
        SpecError: if nobody named a cluster, and none answers on this machine.
        ClusterError: if the cluster that was named does not answer.
    """
    try:
        return connect(access)
    except ClusterError as error:
        if access.is_default and error.exit_code == EXIT_TRY_AGAIN:
            raise _unknown(named, "or the ID of a job, and --address of its Ray cluster") from error
        raise


def _unknown(named: str, otherwise: str) -> SpecError:
    expected = f"the name or folder of a run on this machine, {otherwise}"
    return SpecError([Problem("NAME", named, expected)])


def _stop_local(run: LocalRun, *, no_wait: bool) -> None:
    from trainshed.jobs.local_runs import read_local_run, stop_local

    if not run.is_running:
        click.echo(f"{run.name} {run.status}")
        return
    stop_local(run)
    ended: LocalRun | None = run
    while ended and ended.is_running and not no_wait:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        ended = read_local_run(run.folder)
    click.echo(f"{run.name} {'is stopping' if no_wait or not ended else ended.status}")


def _stop_object(cluster: Kubectl, name: str, *, no_wait: bool) -> None:
    from trainshed.jobs.kubectl import say_status

    status = cluster.resting(name)
    if status and status.phase != "Suspended":
        click.echo(f"{name} {say_status(status)}")
        return
    cluster.suspend(name)
    while not no_wait and (status := cluster.resting(name)) is None:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    said = "is stopping" if no_wait or not status else say_status(status)
    click.echo(f"{name} {said}. To resume it: trainshed apply FILE, or set spec.suspend to false")


def _wait(jobs: Jobs, job_id: str) -> Job:
    while not (job := jobs.get(job_id)).is_over:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return job


def _line(job: Job, width: int) -> str:
    lasted = say_duration((job.ended or time.time()) - job.started)
    return f"{job.id:<{width}}  {job.status:<9}  {_moment(job.started)}  {lasted}"


def _moment(seconds: float) -> str:
    return say_moment(datetime.fromtimestamp(seconds))  # in the time zone of this machine
