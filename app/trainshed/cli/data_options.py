"""What commands about rows share: how SOURCE is named, and the words for reading and writing it."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainshed.display.formatting import say_plainly
from trainshed_api.errors import Problem, SpecError, show_value
from trainshed_api.formats import FORMATS
from trainshed_api.quantity import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trainshed.inspect.generated_rows import GeneratedRows
    from trainshed.inspect.inputs import RowInput
    from trainshed.storage.folder import Folder
    from trainshed_api.formats import FormatName

CORES = len(os.sched_getaffinity(0))
# A file that goes to a bucket is held whole.
MOST_FILE_BYTES = "2Gi"


def _split(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:  # noqa: ARG001 - a callback
    names = tuple(name.strip() for name in value.split(",")) if value else ()
    if "" in names:
        raise click.BadParameter(f"{show_value(value)} has a column without a name")
    return names


def located(ctx: click.Context, param: click.Parameter, value: str) -> Folder:  # noqa: ARG001 - a callback
    """Return the folder of an option."""
    # At once: the code of a TrainingRun has another working directory.
    from trainshed.planning.paths import locate
    from trainshed.storage.disk import Disk

    return locate(value, Disk(Path.cwd()), "--to")


def as_bytes(ctx: click.Context, param: click.Parameter, value: str) -> int:  # noqa: ARG001 - a callback
    """Return the bytes of an option."""
    try:
        size = parse_bytes(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not 1 <= size <= parse_bytes(MOST_FILE_BYTES):
        raise click.BadParameter(f"got {value}; expected 1 to {MOST_FILE_BYTES}")
    return size


def of_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Add SOURCE, and what says how it is read, to a command, which sees its rows."""

    @functools.wraps(command)
    def with_rows(  # noqa: PLR0913, PLR0917 - the options of a command
        source: str,
        dataset: str | None,
        raw: bool,
        form: FormatName | None,
        options: tuple[str, ...],
        columns: tuple[str, ...],
        **others: object,
    ) -> None:
        from trainshed.inspect.inputs import open_dataset, open_files

        if dataset is None:
            _check_files(source, form, raw=raw)
            command(given=open_files(source, form, options, columns), **others)
            return
        _check_dataset({"--format": form, "--option": options, "--columns": columns})
        processes = others.get("processes", CORES)
        assert isinstance(processes, int)
        given = open_dataset(Path(source), dataset, processes, raw=raw)
        with _ray_where_needed(given):
            command(given=given, **others)
        if given.left_out and (said := given.left_out.say()):
            click.echo(say_plainly(said), err=True)

    changed = format_options(with_rows)
    changed = click.option("--raw", is_flag=True, help="Do not apply the dataset's transforms.")(
        changed
    )
    changed = click.option(
        "--dataset", metavar="NAME", help="Dataset of the TrainingRun file SOURCE."
    )(changed)
    return click.argument("source")(changed)


def format_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --format, --option and --columns to a command."""
    changed = click.option(
        "--columns", metavar="A,B", callback=_split, help="Columns to read. Default: all."
    )(command)
    changed = click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="Option of the format, such as delimiter=';'. The value is YAML.",
    )(changed)
    return click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        metavar="FORMAT",
        help="Format of the files. Default: that of their endings.",
    )(changed)


code_option = click.option(
    "--code",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Folder of your modules. Default: this one.",
)


@contextlib.contextmanager
def _ray_where_needed(given: RowInput | GeneratedRows) -> Iterator[None]:
    """Start Ray for the command if only Ray can make the rows."""
    from trainshed.inspect.generated_rows import GeneratedRows

    if not isinstance(given, GeneratedRows):
        yield
        return
    from trainshed.ray_train.ray_cluster import for_rows

    said = f"{given.field}: starting Ray on this machine, because {given.maker} makes its rows"
    click.echo(say_plainly(said), err=True)
    with for_rows(given.cpus, given.env):
        yield


def _check_files(source: str, form: FormatName | None, *, raw: bool) -> None:
    if raw:
        expected = "a dataset. Remove --raw: plain files have no transforms"
        raise SpecError([Problem("--raw", "files without --dataset", expected)])
    if form is None and source.endswith((".yaml", ".yml")):
        expected = "missing; expected the name of a dataset of this TrainingRun file"
        raise SpecError([Problem("--dataset", None, expected)])


def _check_dataset(given: Mapping[str, object]) -> None:
    expected = "no value with --dataset. Set it in the TrainingRun file"
    if problems := [
        Problem(name, show_value(value), expected) for name, value in given.items() if value
    ]:
        raise SpecError(problems)


def with_processes(command: Callable[..., None]) -> Callable[..., None]:
    """Add --processes to a command."""
    return click.option(
        "--processes",
        type=click.IntRange(min=1),
        default=CORES,
        show_default="one per core",
        help="Processes that read and transform.",
    )(command)
