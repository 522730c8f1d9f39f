"""`trainshed data`: data sets to try things with."""

from __future__ import annotations

import click


@click.group()
def data() -> None:
    """Write a data set to try things with."""


@data.command()
@click.option("--to", "folder", required=True, help="A path, or the address of a bucket.")
def digits(folder: str) -> None:
    """Write scikit-learn's handwritten digits as parquet below FOLDER/digits."""
    from trainshed.digits import write_digits
    from trainshed.records.addresses import open_folder

    try:
        counts = write_digits(open_folder(folder))
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), param_hint="--to") from error
    click.echo(f"digits: {counts}")
