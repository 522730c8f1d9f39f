"""`trainshed validate FILE`: find what is wrong without starting anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trainshed.cli.run_file import check, file_options
from trainshed_api.loading import load_file

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@file_options
def validate(file: Path, settings: tuple[str, ...]) -> None:
    """Check FILE, its data, its code, its storage and this machine."""
    prepared = check(file, load_file(file, settings))
    click.echo(f"{file}: {prepared.run.metadata.name} is valid (spec {prepared.spec_hash[:8]})")
