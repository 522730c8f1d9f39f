"""`trainshed predict RUN SOURCE`: predictions of a trained run."""

from __future__ import annotations

import json
import sys
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from trainshed.cli.cluster import remote_options
from trainshed.cli.data_options import code_option, format_options
from trainshed.cli.predict_on_ray import (
    DEFAULT_WORKERS,
    PredictionRequest,
    predict_by_workers,
    submit_prediction,
)
from trainshed.cli.printing import print_lines, print_table
from trainshed.cli.run_location import is_address
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.jobs.access import DashboardAccess
    from trainshed.predict.batch_prediction import BatchPrediction
    from trainshed.predict.trained_model import TrainedModel
    from trainshed_api.formats import FormatName

BATCH_ROWS = 1024


@click.command()
@click.argument("run")
@click.argument("source")
@format_options
@click.option(
    "--output",
    metavar="FILE",
    help="New file for all rows: .jsonl or .parquet. With --workers a folder or an address.",
)
@click.option("--scores", is_flag=True, help="Also the scores of all classes.")
@click.option(
    "--rows", type=click.IntRange(min=1), default=10, show_default=True, help="Rows on a terminal."
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=BATCH_ROWS,
    show_default=True,
    help="Rows of a batch.",
)
@code_option
@click.option(
    "--gpu/--cpu",
    default=None,
    help="Predict with a GPU for each worker, or without. Default: the GPUs of this machine, and "
    "none of a cluster.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Predict by workers of Ray. Default with --address: {DEFAULT_WORKERS}.",
)
@remote_options
@click.pass_context
def predict(  # noqa: PLR0913, PLR0917 - the options of a command
    ctx: click.Context,
    run: str,
    source: str,
    form: FormatName | None,
    options: tuple[str, ...],
    columns: tuple[str, ...],
    output: str | None,
    scores: bool,
    rows: int,
    batch_size: int,
    code: Path,
    gpu: bool | None,
    workers: int | None,
    access: DashboardAccess | None,
) -> None:
    """Predict the rows of SOURCE with the model of RUN.

    RUN is a run's name, its TrainingRun file, or the path or address of its folder or of a
    checkpoint. SOURCE is a file, a folder or an address, read as the training data were, or one
    row as a JSON object. Without --output a terminal shows the first rows, and a pipe gets one
    JSON object a row. An interrupted command continues when it is run again.

    With --workers, workers of Ray predict files of SOURCE at the same time, and --output is a new
    folder. With --address this is a job of that Ray cluster.
    """
    by_default = ctx.get_parameter_source("code") == ParameterSource.DEFAULT
    request = PredictionRequest(
        run, source, form, options, columns, scores, batch_size, None if by_default else code, gpu
    )
    if gpu and access is None:
        _check_gpu()
    if access is not None or workers is not None:
        folder = _folder_of(request, output)
        if access is None:
            predict_by_workers(request, folder, workers or DEFAULT_WORKERS)
            return
        sys.exit(submit_prediction(request, folder, workers or DEFAULT_WORKERS, access))
    _predict_here(request, output, rows)


def _check_gpu() -> None:
    from trainshed.planning.machine import this_machine
    from trainshed.ray_train.ray_cluster import in_cluster

    if not in_cluster() and not this_machine(wants_gpus=True).gpus:
        raise SpecError(
            [Problem("--gpu", "a machine without GPUs", "one with a GPU. Leave it out")]
        )


def _folder_of(request: PredictionRequest, output: str | None) -> str:
    """Return the output of several workers."""
    if output is None:
        expected = "missing; expected a new folder that ends with .jsonl or .parquet"
        raise SpecError([Problem("--output", None, expected)])
    if request.source.lstrip().startswith("{"):
        expected = "files for several workers. Remove --workers and --address for one row"
        raise SpecError([Problem("SOURCE", request.source, expected)])
    return output


def _predict_here(request: PredictionRequest, output: str | None, rows: int) -> None:
    from trainshed.predict.batch_prediction import BatchPrediction, open_rows
    from trainshed.predict.trained_model import load_model

    source = request.source
    if output and is_address(output):
        expected = "a path on this machine, or --workers N to write a folder at this address"
        raise SpecError([Problem("--output", output, expected)])
    sys.path.insert(0, str((request.code or Path()).absolute()))
    model = load_model(request.run, "cpu" if request.gpu is False else None)
    if source.lstrip().startswith("{"):
        if output:
            expected = "no value for one row. Redirect the output to a file"
            raise SpecError([Problem("--output", output, expected)])
        _predict_row(model, source, with_scores=request.scores)
        return
    given = open_rows(source, model, request.form, request.options, request.columns)
    prediction = BatchPrediction(model, given, request.batch_size, with_scores=request.scores)
    if output:
        _write(prediction, Path(output))
        return
    from trainshed.inspect.values import as_json
    from trainshed.predict.part_files import rows_of

    found = chain.from_iterable(map(rows_of, prediction.tables()))
    if sys.stdout.isatty():
        _print_first(list(islice(found, rows + 1)), rows)
    else:
        print_lines(as_json(row) for row in found)


def _predict_row(model: TrainedModel, text: str, *, with_scores: bool) -> None:
    from trainshed.inspect.values import as_json
    from trainshed.predict.batch_prediction import join_predictions
    from trainshed.predict.predictor import SCORES

    try:
        row = json.loads(text)
    except ValueError as error:
        expected = f"a JSON object ({error}), or the path of a file"
        raise SpecError([Problem("SOURCE", text, expected)]) from error
    found = {name: values[0] for name, values in model.predict([row]).items()}
    if not with_scores:
        found.pop(SCORES, None)
    print_lines([as_json(join_predictions(row, found))])


def _write(prediction: BatchPrediction, output: Path) -> None:
    from trainshed.display.formatting import say_count
    from trainshed.inspect.read_progress import bar

    with bar("predicting", prediction.fragments, sys.stderr) as told:
        rows = prediction.write(output, told)
    click.echo(f"{say_count(rows)} rows predicted: {output}")


def _print_first(found: Sequence[Mapping[str, object]], rows: int) -> None:
    from trainshed.inspect.text_tables import rows_table

    if not found:
        click.echo("no rows")
        return
    print_table(rows_table(found[:rows]))
    if len(found) > rows:
        click.echo(f"the first {rows} rows; --output FILE writes all")
