"""`trainshed report DIR`: write a run's report anew."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def report(folder: Path) -> None:
    """Write report.html of the run in FOLDER from what it left."""
    from trainshed.report import write_report
    from trainshed.report.read import NoRunFolderError

    try:
        written = write_report(folder)
    except (NoRunFolderError, OSError) as error:
        raise click.BadParameter(str(error), param_hint="FOLDER") from error
    click.echo(f"report: {written}")
