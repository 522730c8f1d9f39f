"""`trainshed apply FILE`: apply a TrainingRun to a cluster, with the code in its folder."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from trainshed.cli.run_file import file_options
from trainshed.jobs.submission import apply_run
from trainshed_api.loading import load_file, load_written
from trainshed_api.names import EXIT_APPLICATION, EXIT_SUCCEEDED

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.jobs.kubectl import Kubectl

SECONDS_BETWEEN_LOOKS = 2.0


@click.command()
@file_options
@click.option("--storage", metavar="ADDRESS", help="Bucket for code: the chart's storage.")
@click.option("--context", help="Context of the kubeconfig. Default: the current one.")
@click.option("-n", "--namespace", help="Namespace if FILE names none.")
@click.option(
    "--follow/--no-wait", default=True, help="Show progress until the run ends, or return at once."
)
def apply(  # noqa: PLR0913, PLR0917 - the options of a command
    file: Path,
    settings: tuple[str, ...],
    storage: str | None,
    context: str | None,
    namespace: str | None,
    follow: bool,
) -> None:
    """Check FILE, upload its code.workingDir, apply it, and follow the run.

    The code is uploaded to the bucket of --storage or TRAINSHED_HOME, unless the same content is
    there already. Files that git ignores or that look like keys are not uploaded. Ctrl-C stops
    following; the run continues.
    """
    from trainshed.jobs.kubectl import Kubectl

    run = load_file(file, settings)
    cluster = Kubectl(context, namespace)
    for line in apply_run(cluster, run, load_written(file, settings), file, storage):
        click.echo(line)
    if follow:
        sys.exit(_follow(cluster, run.metadata.name, run.metadata.namespace))


def _follow(cluster: Kubectl, name: str, namespace: str | None) -> int:
    """Print what changes until the run is over; return the exit code."""
    from trainshed.jobs.kubectl import say_status

    said = ""
    while True:
        status = cluster.status(name, namespace)
        line = say_status(status)
        if line != said:
            click.echo(line)
            said = line
        if status.phase in ("Succeeded", "Failed"):
            return EXIT_SUCCEEDED if status.phase == "Succeeded" else EXIT_APPLICATION
        time.sleep(SECONDS_BETWEEN_LOOKS)
