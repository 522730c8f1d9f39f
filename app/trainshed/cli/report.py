"""`trainshed report FOLDER`: write a run's report again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trainshed.cli.run_location import ARGUMENT, place_of, storage_errors

if TYPE_CHECKING:
    from trainshed.storage.folder import Folder


@click.command()
@click.argument("folder", callback=place_of)
def report(folder: Folder) -> None:
    """Write report.html into FOLDER, the path or bucket address of a run."""
    from trainshed.report import write_report
    from trainshed.report.load import NoRunFolderError

    try:
        with storage_errors():
            written = write_report(folder)
    except NoRunFolderError as error:
        raise click.BadParameter(str(error), param_hint=ARGUMENT) from error
    click.echo(f"report: {written}")
