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
_FILES = (".yaml", ".yml")


def default_storage() -> Folder:
    """Return the storage of runs that name none: below TRAINSHED_HOME, or below this folder."""
    here, home = Disk(Path.cwd()), os.environ.get(ENV_HOME)
    return (locate(home, here, ENV_HOME) if home else here) / DEFAULT_STORAGE


def run_folder(text: str, field: str) -> Folder:
    """Return the folder of a run, which need not exist.

    A folder of data often has the name of a run beside it: an existing run goes first.

    Args:
        text: a run's name, its TrainingRun file, or the path or address of its folder.
        field: of the text, for errors.

    Raises:
        SpecError: for an unknown address, or a file that is no TrainingRun.
    """
    named = folder_of(text, None, default_storage())
    if "/" not in text and (named / ATTEMPTS).exists():
        return named
    if is_address(text) or Path(text).is_dir():
        return locate(text, Disk(Path.cwd()), field)
    if text.endswith(_FILES) and Path(text).is_file():
        run = load_file(Path(text))
        storage = locate(run.spec.storage, home_of(Path(text)), field)
        return folder_of(run.metadata.name, None, storage)
    return named
