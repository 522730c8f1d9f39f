"""Prints tables on a terminal, and JSON lines into a pipe."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType


def print_table(found: RenderableType) -> None:
    """Print a table to standard output."""
    from rich.console import Console

    Console(file=sys.stdout).print(found)


def print_lines(found: Iterable[object]) -> None:
    """Print one JSON value a line; end quietly if the reader has closed the pipe."""
    try:
        for each in found:
            click.echo(json.dumps(each))
        sys.stdout.flush()
    except BrokenPipeError:
        # `| head -1` closed the pipe. Python would flush the rest at exit, and fail.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
