"""`trainshed explain FILE`: the data plan and what will be asked of Ray, nothing started.

With --measure rows are prepared as in the run, without training, to see how fast each stage is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trainshed.cli.run_file import WITHOUT_GPUS, check, file_options
from trainshed.data.sources.errors import DataError
from trainshed_api.errors import Problem, SpecError, one_of
from trainshed_api.loading import load_file
from trainshed_api.names import EXIT_APPLICATION, EXIT_SUCCEEDED

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.planning.preflight import Prepared


def _show_program(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    from trainshed.programs.reference import PROGRAMS, program_lines

    if name not in PROGRAMS:
        raise click.BadParameter(f"got {name}; expected {one_of(name, PROGRAMS)}")
    for line in program_lines(name):
        click.echo(line)
    context.exit()


@click.command()
@file_options
@click.option(
    "--program",
    metavar="NAME",
    is_eager=True,
    expose_value=False,
    callback=_show_program,
    help="Show the options of a built-in program, such as vision, and exit. Needs no FILE.",
)
@click.option("--measure", is_flag=True, help="Prepare rows without training, and time each stage.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Time to measure, from the first batch on.",
)
def explain(file: Path, settings: tuple[str, ...], measure: bool, seconds: float) -> None:
    """Explain what a run of FILE reads, caches and requests from Ray.

    --measure starts Ray without GPUs, makes batches of the training dataset for --seconds, and
    shows how fast each stage is and which setting to change.
    """
    from trainshed.planning.explanation import explain_lines
    from trainshed.planning.machine import gpu_capabilities

    if measure:
        settings = (*settings, WITHOUT_GPUS)
    prepared = check(file, load_file(file, settings))
    wants_gpus = prepared.spec.workers.resources.gpu > 0
    for line in explain_lines(prepared, gpu_capabilities() if wants_gpus else ()):
        click.echo(line)
    if measure:
        _measure(prepared, seconds)


def _measure(prepared: Prepared, seconds: float) -> None:
    if not prepared.plans or not prepared.spec.train:
        expected = "at least one dataset, and train: a function that takes its batches"
        raise SpecError(
            [Problem("spec.data.datasets", None, f"nothing to measure; expected {expected}")]
        )
    from trainshed.attempt.measure import measure
    from trainshed.attempt.signals import Stop, on_stop
    from trainshed.ray_train.ray_cluster import leave

    stop, code = Stop(), EXIT_SUCCEEDED
    with on_stop(stop):
        try:
            measure(prepared, seconds, stop, click.echo)
        except DataError as error:
            click.echo(f"error: {error}", err=True)
            code = EXIT_APPLICATION
    leave(stop.exit_code if stop.reason else code)
