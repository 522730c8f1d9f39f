"""`trainshed render FILE`: the RayJob that the controller would create."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import yaml

from trainshed.cli.run_file import file_options
from trainshed_api.errors import Problem, SpecError, show_value
from trainshed_api.loading import load_file
from trainshed_api.rayjob import AttemptIdentity, SharedCluster, render_rayjob

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed_api.v1alpha1 import TrainingRunResource

# What only the API server and the controller know.
UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"
NOTE = """\
# The first attempt of {name}, as the controller creates it. The object's uid and the address for
# progress are known only in a cluster.
"""


@click.command()
@file_options
@click.option("--cluster", default="trainshed", help="RayCluster if FILE names none.")
def render(file: Path, settings: tuple[str, ...], cluster: str) -> None:
    """Print the RayJob that the controller would create for FILE. Nothing is sent."""
    run = load_file(file, settings)
    _check(run)
    if run.spec.cluster and run.spec.cluster.shared:
        cluster = run.spec.cluster.shared
    name, namespace = run.metadata.name, run.metadata.namespace or "default"
    rendered = render_rayjob(
        run, AttemptIdentity(namespace, name, UNKNOWN_UID, 1), SharedCluster(cluster)
    )
    click.echo(NOTE.format(name=name) + yaml.safe_dump(rendered, sort_keys=False), nl=False)


def _check(run: TrainingRunResource) -> None:
    """Refuse what a file alone cannot become there."""
    problems = []
    code = run.spec.code
    if code.working_dir and not code.is_remote:
        expected = "an address. Only `trainshed submit` and `trainshed apply` upload a folder"
        problems.append(Problem("spec.code.workingDir", show_value(code.working_dir), expected))
    if run.spec.cluster and run.spec.cluster.dedicated:
        expected = "shared, because classes are defined in the values of the chart"
        problems.append(Problem("spec.cluster", "dedicated", expected))
    if problems:
        raise SpecError(problems)
