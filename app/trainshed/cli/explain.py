"""`trainshed explain FILE`: the data plan and what will be asked of Ray, nothing started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trainshed.cli.files import check, file_options, read

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@file_options
def explain(file: Path, settings: tuple[str, ...], cpu: bool) -> None:
    """Say what running FILE would read, keep and ask of Ray."""
    from trainshed.explanation import explain_lines

    for line in explain_lines(check(file, read(file, settings, cpu))):
        click.echo(line)
