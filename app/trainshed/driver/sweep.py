"""Deletes what earlier attempts left: checkpoints beyond `checkpoint.keep`, and half-written ones.

Ray Train deletes within its own attempt. Of earlier ones nothing goes before this attempt has a
checkpoint of its own, and what a fresh start left behind is no concern of it.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import PurePath
from typing import TYPE_CHECKING

from trainshed.checkpoint import files as checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainshed.records.folder import RunFolder
    from trainshed_api.v1alpha1 import CheckpointSpec

# A folder that is being deleted is none that a run goes on from, however far that came.
GOING = ".deleting-"


def superfluous(earlier: Sequence[Path], own: Path, spec: CheckpointSpec) -> list[Path]:
    """Return the checkpoints of earlier attempts that nobody goes on from, names, nor asks for as
    best.

    Args:
        earlier: the folders of their checkpoints, in order.
        own: that of this attempt.
        spec: how many are kept.
    """
    mine = checkpoint.candidates([own])
    if not mine:
        return []
    theirs = checkpoint.candidates(earlier)
    kept = set(theirs[: max(0, spec.keep - len(mine))])
    if spec.best:
        ranked = checkpoint.ranked([*earlier, own], spec.best.metric, spec.best.mode)
        kept |= {folder for folder, _ in ranked[: spec.keep]}
    kept |= {folder for folder in theirs if folder.name == PurePath(spec.resume).name}
    return [folder for folder in theirs if folder not in kept]


class Sweeper:
    """Sweeps beside the training, for the driver, which holds the attempt.

    Args:
        folder: of the run.
        attempt: its number.
        spec: what is kept.
    """

    def __init__(self, folder: RunFolder, attempt: int, spec: CheckpointSpec) -> None:
        self._folder = folder
        self._number = attempt
        self._own = folder.checkpoints(attempt)
        numbers = [number for number in folder.lineage() if number < attempt]
        self._earlier = [folder.checkpoints(number) for number in numbers]
        self._spec = spec
        self._thread: threading.Thread | None = None
        # Why something is still there; the driver says it once.
        self.problem: str | None = None

    def begin(self) -> None:
        """Sweep in a thread, unless one is at it or there is nothing earlier."""
        if self._earlier and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._sweep, name="sweep", daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Sweep what this attempt's own workers left half-written; all of them have ended."""
        if self._thread:
            self._thread.join()
        self._delete(_half_written([*self._earlier, self._own]))

    def _sweep(self) -> None:
        # Who was given up and does not know it yet may delete what the next one goes on from.
        if self._number != max(self._folder.attempts()):
            return
        self._delete(_half_written(self._earlier))
        self._delete(superfluous(self._earlier, self._own, self._spec))

    def _delete(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            try:
                going = folder.with_name(f"{GOING}{folder.name.removeprefix(GOING)}")
                shutil.rmtree(folder.rename(going))
            except OSError as error:
                self.problem = f"{folder} is no longer needed and could not be deleted: {error}"


def _half_written(parents: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for parent in parents:
        for prefix in (checkpoint.ASIDE, GOING):
            found += parent.glob(f"{prefix}*")
    return found
