"""`trainshed explain FILE`: the data plan and what will be asked of Ray, nothing started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trainshed.cli.files import check, file_options
from trainshed_api.loading import load_file

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@file_options
def explain(file: Path, settings: tuple[str, ...]) -> None:
    """Say what running FILE would read, keep and ask of Ray."""
    from trainshed.plan.explanation import explain_lines
    from trainshed.plan.machine import gpu_capabilities

    prepared = check(file, load_file(file, settings))
    wants_gpus = prepared.spec.workers.resources.gpu > 0
    for line in explain_lines(prepared, gpu_capabilities() if wants_gpus else ()):
        click.echo(line)
