"""`trainshed export RUN SOURCE --to FORMAT`: the model of a run as a file of another program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainshed.cli.data_options import code_option, format_options
from trainshed.predict.export import SUFFIXES, export_model

if TYPE_CHECKING:
    from trainshed_api.formats import FormatName

# Rows whose outputs are compared.
_ROWS = 64


@click.command()
@click.argument("run")
@click.argument("source")
@click.option("--to", type=click.Choice(list(SUFFIXES)), required=True, help="Format of the file.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="New file.",
)
@format_options
@code_option
def export(  # noqa: PLR0913, PLR0917 - the options of a command
    run: str,
    source: str,
    to: str,
    output: Path,
    form: FormatName | None,
    options: tuple[str, ...],
    columns: tuple[str, ...],
    code: Path,
) -> None:
    """Write the model of RUN as a file that programs without Trainshed read.

    RUN is that of `trainshed predict`, and SOURCE a file, a folder or an address. FILE is written
    only if its model has the same outputs for the first rows of SOURCE.
    """
    from trainshed.data.sources.column_arrays import num_rows
    from trainshed.predict.batch_prediction import first_rows, open_rows
    from trainshed.predict.trained_model import load_model

    sys.path.insert(0, str(code.absolute()))
    model = load_model(run, "cpu")
    rows = first_rows(open_rows(source, model, form, options, columns), _ROWS)
    export_model(model, rows, to, output)
    count = num_rows(rows)
    click.echo(f"{output}: outputs equal those of the run for the first {count} rows")
