"""Options and steps that several commands share: reading the file and checking it."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainshed.planning import code
from trainshed.planning.paths import home_of
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.ray_train.ray_cluster import in_cluster
from trainshed_api.errors import Problem, SpecError
from trainshed_api.kubeyaml import line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trainshed_api.v1alpha1 import TrainingRunResource

_TOP = ("apiVersion", "kind", "metadata", "spec")
WITHOUT_GPUS = "spec.workers.resources.gpu=0"


def file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add FILE, --set and --cpu to a command."""
    return click.argument("file", type=click.Path(path_type=Path))(spec_options(command))


def spec_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --set and --cpu to a command, which sees both as its settings: "path=value" each."""

    @functools.wraps(command)
    def with_settings(settings: tuple[str, ...], cpu: bool, **others: object) -> None:
        settings = (*settings, *([WITHOUT_GPUS] if cpu else []))
        try:
            command(settings=settings, **others)
        except SpecError as error:
            file = others.get("file")
            if not isinstance(file, Path):
                raise
            problems = [located(problem, file, settings) for problem in error.problems]
            raise SpecError(problems, error.source) from error

    changed = click.option("--cpu", is_flag=True, help="Train without GPUs.")(with_settings)
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="PATH=VALUE",
        help="Replace one value of the file.",
    )(changed)


def located(problem: Problem, file: Path, settings: Iterable[str]) -> Problem:
    """Return a problem with the line of its field, unless the value is not that of the file."""
    path = problem.field.partition(":")[0]
    if (
        not file.is_file()
        or path.partition(".")[0] not in _TOP
        or any(path.startswith(setting.partition("=")[0]) for setting in settings)
    ):
        return problem
    line = line_of(path, file.read_text(encoding="utf-8"))
    return replace(problem, field=f"{file}:{line}: {problem.field}") if line else problem


def place_of(file: Path) -> RunLocation:
    """Return where the run of a file would run; asked before the working directory changes."""
    return RunLocation(home_of(file), in_cluster())


def check(file: Path, run: TrainingRunResource) -> Prepared:
    """Return the run checked against its data, code, storage and machine."""
    place, beside = place_of(file), file.absolute().parent
    code.enter(run.spec.code, beside)
    return prepare(run, place, beside)
