"""Options and steps that several commands share: reading the file and checking it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainshed.planning import code
from trainshed.planning.paths import home_of
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.ray_train.ray_cluster import in_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_api.v1alpha1 import TrainingRun

WITHOUT_GPUS = "spec.workers.resources.gpu=0"


def file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add FILE, --set and --cpu to a command."""
    return click.argument("file", type=click.Path(path_type=Path))(spec_options(command))


def spec_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --set and --cpu to a command, which sees both as its settings: "path=value" each."""

    @functools.wraps(command)
    def with_settings(settings: tuple[str, ...], cpu: bool, **others: object) -> None:
        command(settings=(*settings, *([WITHOUT_GPUS] if cpu else [])), **others)

    changed = click.option("--cpu", is_flag=True, help="Train without GPUs.")(with_settings)
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="PATH=VALUE",
        help="Replace one value of the file.",
    )(changed)


def place_of(file: Path) -> RunLocation:
    """Return where the run of a file would run; asked before the working directory changes."""
    return RunLocation(home_of(file), in_cluster())


def check(file: Path, run: TrainingRun) -> Prepared:
    """Return the run checked against its data, code, storage and machine."""
    place, beside = place_of(file), file.absolute().parent
    code.enter(run.spec.code, beside)
    return prepare(run, place, beside)
