"""Finds the folder of a run that has ended or runs on this machine, from what a user types."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.planning.paths import home_of, locate
from trainshed.storage.addresses import is_address
from trainshed.storage.disk import Disk
from trainshed.storage.driver_identity import folder_of
from trainshed.storage.run_folder import ATTEMPTS
from trainshed_api.loading import load_file
from trainshed_api.names import ENV_HOME

if TYPE_CHECKING:
    from trainshed.storage.folder import Folder

# Of spec.storage.
DEFAULT_STORAGE = "runs"
# The TrainingRun file of a project's folder.
PROJECT_FILE = "run.yaml"
_FILES = (".yaml", ".yml")


def default_storage() -> Folder:
    """Return the storage of runs that name none: below TRAINSHED_HOME, or below this folder."""
    here, home = Disk(Path.cwd()), os.environ.get(ENV_HOME)
    return (locate(home, here, ENV_HOME) if home else here) / DEFAULT_STORAGE


def run_folder(text: str, field: str) -> Folder:
    """Return the folder of a run, which need not exist.

    A folder of data often has the name of a run beside it: an existing run goes first.

    Args:
        text: a run's name, its TrainingRun file, a folder with that file as run.yaml, or the path
            or address of the run's folder.
        field: of the text, for errors.

    Raises:
        SpecError: for an unknown address, or a file that is no TrainingRun.
    """
    named = folder_of(text, None, default_storage())
    if "/" not in text and (named / ATTEMPTS).exists():
        return named
    if file := run_file(text):
        run = load_file(file)
        storage = locate(run.spec.storage, home_of(file), field)
        return folder_of(run.metadata.name, None, storage)
    if is_address(text) or Path(text).is_dir():
        return locate(text, Disk(Path.cwd()), field)
    return named


def run_file(text: str) -> Path | None:
    """Return the TrainingRun file that a text names, or that the project of that folder has."""
    path = Path(text)
    if is_address(text) or (path / ATTEMPTS).exists():
        return None
    if (path / PROJECT_FILE).is_file():
        return path / PROJECT_FILE
    return path if text.endswith(_FILES) and path.is_file() else None
