"""`trainshed run FILE`: train on this machine, or as a job inside a Ray cluster."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from trainshed.attempt import begin
from trainshed.attempt.signals import Stop, StopRequestedError, on_stop
from trainshed.cli.run_file import place_of, spec_options
from trainshed.planning import code
from trainshed.storage.run_folder import process_age_seconds
from trainshed_api.loading import load_file, load_text
from trainshed_api.names import ENV_SPEC, STDIN


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@spec_options
@click.option("--fresh", is_flag=True, help="Start over; files of earlier attempts stay.")
def run(file: Path | None, settings: tuple[str, ...], fresh: bool) -> None:
    """Train FILE on this machine, resuming from the last checkpoint.

    FILE - is standard input. Without FILE, in a job of a Ray cluster, train the spec in
    TRAINSHED_SPEC on that cluster.
    """
    if file is None and ENV_SPEC not in os.environ:
        raise click.UsageError("Missing argument 'FILE'.")
    stop = Stop()
    with on_stop(stop):
        from trainshed.ray_train.ray_cluster import leave

        options = begin.RunOptions(fresh, time.time() - process_age_seconds(), stop)
        try:
            if file:
                place, beside = place_of(file), file.absolute().parent
                is_stdin = str(file) == STDIN
                wanted = (
                    load_text(sys.stdin.read(), STDIN, settings)
                    if is_stdin
                    else load_file(file, settings)
                )
                code.enter(wanted.spec.code, beside)
                ended = begin.begin(wanted, place, beside, options)
            else:
                ended = begin.begin_job(settings, options)
        except StopRequestedError:
            click.echo(f"{stop.reason}: stopped before an attempt began", err=True)
            ended = stop.exit_code
        leave(ended)
