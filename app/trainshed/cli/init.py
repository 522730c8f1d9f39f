"""`trainshed init FOLDER --data SOURCE`: a project that trains on a user's data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainshed.cli.run_location import is_address

if TYPE_CHECKING:
    from trainshed.projects.new_project import Task


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option(
    "--data",
    "source",
    required=True,
    metavar="SOURCE",
    help="Table or folders of pictures: a path or an address.",
)
@click.option("--label", metavar="COLUMN", help="Column to predict. Default: label, target, ...")
@click.option(
    "--task",
    type=click.Choice(["classification", "regression"]),
    help="What to predict. Default: by the values of the label.",
)
def init(folder: Path, source: str, label: str | None, task: Task | None) -> None:
    """Write a TrainingRun file into FOLDER that trains on your data.

    Tables train boosted trees, and pictures in one folder for each class a small network. A fifth
    of the rows is held out to measure the result.
    """
    from trainshed.projects.new_project import write_project

    if not is_address(source):
        source = str(Path(source).absolute())
    for line in write_project(folder, source, label, task):
        click.echo(line)
