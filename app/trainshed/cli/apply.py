"""`trainshed apply FILE`: apply a TrainingRun to a cluster, with the code in its folder."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from trainshed.cli.run_file import file_options
from trainshed.jobs.cluster_error import ClusterError
from trainshed.jobs.submission import apply_run
from trainshed_api.json_object import as_object
from trainshed_api.loading import load_file, load_written
from trainshed_api.names import (
    EXIT_APPLICATION,
    EXIT_SUCCEEDED,
    EXIT_TERMINATED,
    EXIT_TRY_AGAIN,
)

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.jobs.kubectl import Kubectl

SECONDS_BETWEEN_LOOKS = 2.0
# An upgrade of a control plane, or a laptop that changes its network, takes minutes.
SECONDS_WITHOUT_ANSWER = 300.0
SECONDS_WITHOUT_CONTROLLER = 30.0
NO_CONTROLLER = (
    "No controller has answered yet. A controller serves only its own namespace: "
    "choose that one with -n"
)


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
    following; the run continues. The exit code of a suspended run is 143.
    """
    from trainshed.jobs.kubectl import Kubectl

    run = load_file(file, settings)
    cluster = Kubectl(context, namespace)
    for line in apply_run(cluster, run, load_written(file, settings), file, storage):
        click.echo(line)
    if follow:
        sys.exit(_follow(cluster, run.metadata.name, run.metadata.namespace))


def _follow(cluster: Kubectl, name: str, namespace: str | None) -> int:
    """Print what changes until no Pod of the run is needed; return the exit code."""
    from trainshed.jobs.kubectl import read_status, say_status

    there = replace(cluster, namespace=namespace or cluster.namespace)
    said, begun = "", time.monotonic()
    answered = begun
    while True:
        phase, suspends = None, False
        try:
            [found] = there.get("trainingrun", name)
        except ClusterError as error:
            silent = time.monotonic() - answered
            if error.exit_code != EXIT_TRY_AGAIN or silent > SECONDS_WITHOUT_ANSWER:
                raise
            line = str(error)
        else:
            answered = time.monotonic()
            status = read_status(found)
            phase, line = status.phase, say_status(status)
            # A run that was resumed just now has the phase Suspended until the controller acts.
            suspends = bool(as_object(found["spec"]).get("suspend"))
            if phase is None and answered - begun >= SECONDS_WITHOUT_CONTROLLER:
                line = NO_CONTROLLER
        if line != said:
            click.echo(line)
            said = line
        if phase == "Suspended" and suspends:
            click.echo("to resume: the same command with --set spec.suspend=false")
            return EXIT_TERMINATED
        if phase in {"Succeeded", "Failed"}:
            return EXIT_SUCCEEDED if phase == "Succeeded" else EXIT_APPLICATION
        time.sleep(SECONDS_BETWEEN_LOOKS)
