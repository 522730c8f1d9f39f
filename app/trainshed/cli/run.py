"""`trainshed run FILE`: train on this machine."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from trainshed.cli.files import check, file_options, read
from trainshed.folder import process_age_seconds
from trainshed.preflight import home_of

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@file_options
@click.option("--fresh", is_flag=True, help="Start anew; what earlier attempts wrote stays.")
def run(file: Path, settings: tuple[str, ...], cpu: bool, fresh: bool) -> None:
    """Train FILE on this machine, going on from where an earlier attempt ended."""
    started = time.time() - process_age_seconds()
    home = home_of(file)
    prepared = check(file, read(file, settings, cpu))
    # Not before: these import Ray, and whoever has a mistake to mend should not wait for it.
    from trainshed import launch, resume
    from trainshed.display import choose_display
    from trainshed.ray_cluster import leave

    if not fresh:
        resume.check_same_run(prepared)
        if done := resume.finished(prepared):
            click.echo(f"{prepared.run.metadata.name} is finished: --fresh trains it again")
            click.echo(f"report: {done.report}")
            return
    found, refused = resume.choose(prepared, home, fresh)
    attempt = prepared.folder.claim(prepared.spec_hash, fresh)
    display = choose_display(sys.stdout)
    try:
        plan = launch.Launch(prepared, home, found, refused, started)
        code = launch.run(plan, attempt, display)
    finally:
        attempt.close()
        display.close()
    leave(code)
