"""`trainshed data`: data sets to try things with."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def data() -> None:
    """Write a data set to try things with."""


@data.command()
@click.option("--to", "folder", type=click.Path(path_type=Path, file_okay=False), required=True)
def digits(folder: Path) -> None:
    """Write scikit-learn's handwritten digits as parquet below FOLDER/digits."""
    from trainshed.digits import write_digits

    try:
        counts = write_digits(folder)
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), param_hint="--to") from error
    click.echo(f"digits: {counts}")
