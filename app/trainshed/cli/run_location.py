"""What the commands that read a run's folder share: how it is named, and what may be wrong."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from trainshed.storage.addresses import open_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.storage.folder import Folder

ARGUMENT = "FOLDER"


def place_of(ctx: click.Context, param: click.Parameter, value: str) -> Folder:
    """Return the folder of an argument: an existing one, or one in a bucket; a callback."""
    if not is_address(value):
        click.Path(exists=True, file_okay=False).convert(value, param, ctx)
    return open_place(value)


def open_place(text: str) -> Folder:
    """Return the folder that a path or an address names."""
    try:
        return open_folder(text)
    except ValueError as error:
        raise click.BadParameter(f"{text} is not {error}", param_hint=ARGUMENT) from error


def is_place(text: str) -> bool:
    """Say whether a text names a folder rather than something else that has a name."""
    from pathlib import Path

    return is_address(text) or Path(text).is_dir()


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """Say what storage did not give as one sentence about the command's FOLDER."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        text = f"{error.filename}: {reason}" if error.filename else reason
        raise click.BadParameter(text, param_hint=ARGUMENT) from error


def is_address(text: str) -> bool:
    """Return whether a text is an address rather than a path of this machine."""
    return "://" in text
