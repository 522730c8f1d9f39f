"""`spec.code` on this machine: its folder becomes the working one, its packages must be there.

In a Ray job there is nothing left to do: Ray has brought both before the driver started.
"""

from __future__ import annotations

import importlib.metadata
import os
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

from trainshed_api.errors import Problem, SpecError, show_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainshed_api.code import CodeSpec


def enter(code: CodeSpec, beside: Path) -> None:
    """Go to the run's working directory, where its modules are imported from.

    Args:
        code: of the spec.
        beside: the folder of the TrainingRun file.

    Raises:
        SpecError: when it is not here, or packages are missing.
    """
    problems = _find_missing(code.pip)
    folder = local_folder(code, beside)
    if code.is_remote:
        want = "a local folder; an address is for a run in a cluster"
        problems.append(Problem("spec.code.workingDir", show_value(code.working_dir), want))
    if problems:
        raise SpecError(problems)
    if folder:
        os.chdir(folder)


def local_folder(code: CodeSpec, beside: Path) -> Path | None:
    """Return the working directory that is on this machine; None where none is named.

    Raises:
        SpecError: when it is no folder.
    """
    if code.working_dir is None or code.is_remote:
        return None
    folder = beside / code.working_dir
    if not folder.is_dir():
        want = f"a folder: {folder} is none"
        raise SpecError([Problem("spec.code.workingDir", show_value(code.working_dir), want)])
    return folder


def _find_missing(requirements: Sequence[str]) -> list[Problem]:
    problems = []
    for index, text in enumerate(requirements):
        field = f"spec.code.pip[{index}]"
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            problems.append(Problem(field, show_value(text), "a requirement such as einops==0.8"))
            continue
        if requirement.marker and not requirement.marker.evaluate():
            continue
        there = _installed(requirement.name)
        if there is None or not requirement.specifier.contains(there, prereleases=True):
            has = f"version {there} is" if there else "it is not"
            want = f"it on this machine, where {has} installed: pip install '{text}'"
            problems.append(Problem(field, show_value(text), want))
    return problems


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
