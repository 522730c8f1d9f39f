"""What the commands that speak to a cluster share: how it is reached, and how a job is followed."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainshed.jobs.access import find_access
from trainshed_api.names import EXIT_APPLICATION, EXIT_INTERRUPTED, EXIT_SUCCEEDED, EXIT_TERMINATED

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.jobs.access import DashboardAccess
    from trainshed.jobs.jobs_api import Job, Jobs

# Of the cluster's clock and ours: how much earlier its first event may seem.
CLOCK_SECONDS = 2.0


def access_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --address, --token-file and --header to a command, which sees them as its access."""

    @functools.wraps(command)
    def with_access(
        address: str | None, token_file: Path | None, headers: tuple[str, ...], **others: object
    ) -> None:
        access = find_access(address, token_file, headers, os.environ)
        command(access=access, **others)

    return _add_access(with_access, "Default: RAY_ADDRESS, or http://localhost:8265.")


def remote_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the same options to a command of this machine; its access is None without --address."""

    @functools.wraps(command)
    def with_access(
        address: str | None, token_file: Path | None, headers: tuple[str, ...], **others: object
    ) -> None:
        access = find_access(address, token_file, headers, os.environ) if address else None
        command(access=access, **others)

    return _add_access(with_access, "Default: this machine.")


def _add_access(command: Callable[..., None], default: str) -> Callable[..., None]:
    changed = click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="Header to send; may be repeated.",
    )(command)
    changed = click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        help="File with the cluster's token. Default: RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH.",
    )(changed)
    return click.option("--address", metavar="URL", help=f"Ray dashboard. {default}")(changed)


def kubernetes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add -n and --context to a command, which sees them as its cluster; None without them."""

    @functools.wraps(command)
    def with_cluster(context: str | None, namespace: str | None, **others: object) -> None:
        from trainshed.jobs.kubectl import Kubectl

        cluster = Kubectl(context, namespace) if context or namespace else None
        command(cluster=cluster, **others)

    changed = click.option("--context", help="Runs in Kubernetes, of this kubectl context.")(
        with_cluster
    )
    return click.option(
        "-n", "--namespace", help="Runs in Kubernetes, of this namespace, by kubectl."
    )(changed)


def connect(access: DashboardAccess) -> Jobs:
    """Return the jobs of a cluster; only now Ray is imported."""
    from trainshed.jobs.jobs_api import Jobs

    return Jobs(access)


def follow_run(jobs: Jobs, job: Job) -> int:
    """Show a run's progress to its end and return the exit code of its driver."""
    from trainshed.display.choice import choose_display
    from trainshed.jobs.follow import LogReader, follow

    display = choose_display(sys.stdout)
    reader = LogReader(display, _say, job.started - CLOCK_SECONDS)
    try:
        ended = asyncio.run(follow(jobs, job.id, reader.take))
    except KeyboardInterrupt:
        display.close()
        _say(f"{job.id} continues. Run the same command to follow it again")
        _say(f"to stop it: trainshed stop {job.id} --address {jobs.address}")
        return EXIT_INTERRUPTED
    finally:
        display.close()
    if ended.status == "FAILED" and ended.exit_code is None:
        _say(f"{ended.id} did not start: {ended.message}")
    return exit_code(ended)


def exit_code(job: Job) -> int:
    """Return what the driver of a job that is over ended with, as far as the cluster says."""
    if job.exit_code is not None:
        return job.exit_code
    codes = {"SUCCEEDED": EXIT_SUCCEEDED, "STOPPED": EXIT_TERMINATED}
    return codes.get(job.status, EXIT_APPLICATION)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
