"""`trainshed data`: look at rows, sum them up, write them as parquet; data to try things with."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from trainshed.cli.data_options import as_bytes, located, of_rows, with_processes
from trainshed.cli.printing import print_lines, print_table
from trainshed.planning.paths import SAMPLES
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.inspect.generated_rows import GeneratedRows
    from trainshed.inspect.inputs import RowInput
    from trainshed.storage.folder import Folder

FILE_BYTES = "128Mi"


@click.group()
def data() -> None:
    """Inspect rows and write them as Parquet. Only generated rows start Ray."""


to_folder = click.option(
    "--to", "folder", required=True, help="Folder: a path or a bucket address."
)


@data.command()
@click.argument("name", type=click.Choice(SAMPLES))
@to_folder
@click.pass_context
def sample(context: click.Context, name: str, folder: str) -> None:
    """Write the sample dataset NAME below FOLDER, where the manifests read it."""
    if name == "digits":
        context.invoke(digits, folder=folder)
        return
    from trainshed.sample_data import write_sample
    from trainshed.storage.addresses import open_folder

    try:
        files = write_sample(name, open_folder(folder))
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), param_hint="--to") from error
    click.echo(f"{folder.rstrip('/')}/{name}: {len(files)} files")


@data.command()
@to_folder
def digits(folder: str) -> None:
    """Write scikit-learn's handwritten digits below FOLDER/digits, as `sample digits` does."""
    from trainshed.digits import write_digits
    from trainshed.storage.addresses import open_folder

    try:
        counts = write_digits(open_folder(folder))
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), param_hint="--to") from error
    for name, num_rows in counts.items():
        click.echo(f"{folder.rstrip('/')}/digits/{name}: {num_rows} rows")


@data.command()
@of_rows
@click.option(
    "--rows", type=click.IntRange(min=1), default=10, show_default=True, help="Rows to show."
)
def show(given: RowInput | GeneratedRows, rows: int) -> None:
    """Show the first rows of SOURCE: files at a path or an address.

    With --dataset, SOURCE is a TrainingRun file and its transforms are applied, but no
    augmentation. A pipe gets one JSON object a row, with bytes in base64. Rows of a function, a
    reader or a group transform start Ray on this machine, which makes only the rows needed.
    """
    from trainshed.inspect.reading import first_rows
    from trainshed.inspect.text_tables import rows_table
    from trainshed.inspect.values import as_json

    # What leaves early, as `| head -1` does, must not leave Ray at work.
    with contextlib.closing(first_rows(given, rows)) as found:
        if not sys.stdout.isatty():
            print_lines(as_json(row) for row in found)
        elif kept := list(found):
            print_table(rows_table(kept))
        else:
            click.echo("no rows")


@data.command()
@of_rows
def schema(given: RowInput | GeneratedRows) -> None:
    """Show columns, types, files, rows and fragments of SOURCE.

    Types come from the first rows of at most eight fragments. A pipe gets one JSON object.
    """
    from trainshed.inspect.schema import describe
    from trainshed.inspect.text_tables import schema_table

    found = describe(given)
    if sys.stdout.isatty():
        print_table(schema_table(found))
    else:
        print_lines([found.model_dump(mode="json", by_alias=True)])


@data.command()
@of_rows
@click.option("--by-file", is_flag=True, help="Count the rows of each file.")
@click.option("--by", metavar="COLUMN", help="Count the rows with each value of a column.")
@with_processes
def count(given: RowInput | GeneratedRows, by_file: bool, by: str | None, processes: int) -> None:
    """Count the rows of SOURCE, from file metadata when available, else by reading all rows.

    A dataset's transforms are applied, as they may drop rows; --raw counts rows before them. A
    pipe gets counts of files and values as one JSON object a line.
    """
    from trainshed.inspect import counting
    from trainshed.inspect.read_progress import bar

    if by_file and by:
        raise SpecError([Problem("--by-file", "both it and --by", "one of the two")])
    rows, counts = 0, list[tuple[object, int]]()
    with bar("counting", given.fragments, sys.stderr) as told:
        if by_file:
            counts += counting.count_by_file(given, processes, told).items()
        elif by:
            counts += counting.count_by(given, by, processes, told).items()
        else:
            rows = counting.count(given, processes, told)
    if by_file or by:
        _print_counts(by or "file", counts)
    else:
        click.echo(rows)


def _print_counts(title: str, counts: Sequence[tuple[object, int]]) -> None:
    from trainshed.inspect.text_tables import counts_table
    from trainshed.inspect.values import as_key

    if sys.stdout.isatty():
        print_table(counts_table(title, counts))
    else:
        number = "rows" if title != "rows" else "count"  # of a column with that name
        print_lines({title: as_key(kind), number: rows} for kind, rows in counts)


@data.command()
@of_rows
@click.option(
    "--column",
    "columns_meant",
    multiple=True,
    metavar="NAME",
    help="Column to summarize; may be repeated. Default: all columns.",
)
@with_processes
def stats(given: RowInput | GeneratedRows, columns_meant: tuple[str, ...], processes: int) -> None:
    """Summarize each column of SOURCE: rows, missing values, minimum, maximum, mean and more.

    All rows are read once, after a dataset's transforms. Columns of texts and other types show
    the number of distinct values and the most frequent ones. A pipe gets one JSON object a column,
    which also has sums.
    """
    from trainshed.inspect.read_progress import bar
    from trainshed.inspect.statistics import summarize
    from trainshed.inspect.text_tables import summaries_table

    with bar("reading", given.fragments, sys.stderr) as told:
        found = summarize(given, columns_meant, processes, told)
    if not sys.stdout.isatty():
        print_lines(each.model_dump(mode="json", by_alias=True) for each in found)
    elif found:
        print_table(summaries_table(found))
    else:
        click.echo("no rows")


@data.command()
@of_rows
@click.option(
    "--to",
    required=True,
    callback=located,
    metavar="FOLDER",
    help="New or empty folder: a path or a bucket address.",
)
@click.option(
    "--shuffle", "seed", type=click.IntRange(min=0), metavar="SEED", help="Shuffle all rows."
)
@click.option("--rows-per-file", type=click.IntRange(min=1), help="Maximum rows of a file.")
@click.option(
    "--file-bytes",
    default=FILE_BYTES,
    show_default=True,
    callback=as_bytes,
    help="Size after which the next file begins.",
)
@with_processes
def write(  # noqa: PLR0913, PLR0917 - the options of a command
    given: RowInput | GeneratedRows,
    to: Folder,
    seed: int | None,
    rows_per_file: int | None,
    file_bytes: int,
    processes: int,
) -> None:
    """Write the rows of SOURCE as Parquet files, after a dataset's transforms.

    Rows keep their order unless --shuffle is given. A shuffle needs disk space for a second copy of
    all rows: on the disk of FOLDER, or on this machine if FOLDER is in a bucket. Existing files are
    never overwritten, and incomplete files are removed.
    """
    from trainshed.display.formatting import say_bytes, say_count
    from trainshed.inspect.read_progress import bar
    from trainshed.inspect.writing import WriteOptions, write

    options = WriteOptions(file_bytes, rows_per_file, seed, processes)
    with bar("writing", given.fragments, sys.stderr) as told:
        done = write(given, to, options, told)
    click.echo(
        f"{say_count(done.rows)} rows in {say_count(done.files)} file{'s' * (done.files != 1)}, "
        f"{say_bytes(done.bytes)}: {to}"
    )
