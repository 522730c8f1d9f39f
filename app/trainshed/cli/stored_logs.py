"""What a run printed, from its storage: of use when the cluster that ran it is gone."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING

import click

from trainshed.cli.run_location import ARGUMENT, storage_errors
from trainshed.display.formatting import say_plainly
from trainshed.jobs.local_runs import find_logs
from trainshed.storage.run_folder import METRICS, RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trainshed.storage.folder import Folder


def show(folder: Folder, attempt: int | None, tail: int | None) -> None:
    """Print what an attempt printed: first its driver, then each of its workers.

    Args:
        folder: of a run.
        attempt: None for the last one.
        tail: so many lines of each; None for all.
    """
    with storage_errors():
        kept = _attempt(folder, attempt)
        logs = list(find_logs(kept))
    printed = [
        _print(f"{place.name}/{name}" if place is not kept else "", _read(place, name, tail))
        for name, place in logs
    ]
    if not any(printed):
        click.echo(
            f"Attempt {kept.name} has printed nothing. What happened is in {kept / METRICS}, and "
            f"in the report: trainshed report {folder}"
        )


def _attempt(folder: Folder, number: int | None) -> Folder:
    run = RunFolder(folder)
    there = run.attempts()
    if not there:
        raise click.BadParameter(
            f"{folder} is not the folder of a run: it has no attempts", param_hint=ARGUMENT
        )
    if number is not None and number not in there:
        known = ", ".join(map(str, there))
        raise click.BadParameter(f"{number} is none of {known}", param_hint="--attempt")
    return run.attempt(there[-1] if number is None else number)


def _read(folder: Folder, name: str, tail: int | None) -> Iterator[str]:
    with storage_errors():
        lines = folder.lines(name)
        yield from lines if tail is None else deque(lines, tail)


def _print(title: str, lines: Iterable[str]) -> bool:
    """Print a log and return whether it had a line; title: empty for the one that needs none."""
    if title:
        click.echo(f"==> {title} <==")
    has_lines, ends = False, True
    plain = sys.stdout.isatty()
    for line in lines:
        has_lines = True
        ends = line.endswith("\n")
        said = line.removesuffix("\n")
        click.echo(say_plainly(said) if plain else said, nl=ends)
    if not ends:
        click.echo()
    return has_lines
