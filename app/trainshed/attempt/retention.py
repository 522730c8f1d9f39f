"""Deletes what earlier attempts left: checkpoints beyond `checkpoint.keep`, and half-written ones.

Ray Train deletes within the current attempt. Earlier checkpoints stay until this attempt has
written one. Checkpoints that it does not resume from stay, too: those before a fresh start, or
before `checkpoint.resume` named another one.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.attempt import resume
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.ray_snapshot import LINKED
from trainshed.failures import InfrastructureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainshed.storage.folder import Folder
    from trainshed.storage.run_folder import RunFolder
    from trainshed_api.v1alpha1 import CheckpointSpec


def superfluous(
    earlier: Sequence[Folder], own: Folder, spec: CheckpointSpec, named: Folder | None
) -> list[Folder]:
    """Return checkpoints of earlier attempts that are neither newest, best nor named in the spec.

    Args:
        earlier: the folders of their checkpoints, in order.
        own: that of this attempt.
        spec: how many are kept.
        named: the one that `checkpoint.resume` names.
    """
    # What was damaged stands for none that is kept.
    mine = checkpoint.candidates([own], with_damaged=False)
    if not mine:
        return []
    theirs = checkpoint.candidates(earlier)
    # What a run passes over comes last, such as an earlier release's in the middle of an epoch.
    by_use = sorted(theirs, key=checkpoint.is_usable, reverse=True)
    kept = set(by_use[: max(0, spec.keep - len(mine))])
    if spec.best:
        ranking = checkpoint.ranked([*earlier, own], spec.best.metric, spec.best.mode)
        # Of what cannot be read nobody knows whether it is the best.
        kept |= {folder for folder, _ in ranking.scored[: spec.keep]} | set(ranking.unread)
    if named and named.exists():
        kept |= {folder for folder in theirs if folder.is_same(named)}
    # What an attempt was given to begin with is a second name of what an earlier one left.
    given = [parent / LINKED for parent in earlier if (parent / LINKED).exists()]
    return [*(folder for folder in theirs if folder not in kept), *given]


@dataclass(eq=False)
class Retention:
    """Sweeps beside the training, for the driver, which holds the attempt.

    Args:
        folder: of the run.
        attempt: its number.
        spec: what is kept.
        named: the checkpoint that the run names.
    """

    folder: RunFolder
    attempt: int
    spec: CheckpointSpec
    named: Folder | None
    # Why something is still there; the driver says it once.
    problem: str | None = None
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        """Look which attempts were before."""
        self._own = self.folder.checkpoints(self.attempt)
        self._earlier: list[Folder] = []
        if self.attempt > 1:
            with self._said():
                wanted = self.spec.resume
                numbers = resume.ancestors(self.folder, wanted, self.attempt, surely=True)
                self._earlier = [self.folder.checkpoints(number) for number in numbers]
        # Those of them that held anything at the last look: each is requests of a bucket.
        self._holding = self._earlier

    def begin(self) -> None:
        """Sweep in a thread, unless one is at it or there is nothing earlier."""
        if self._holding and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._sweep, name="sweep", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is being swept."""
        if self._thread:
            self._thread.join()

    def finish(self) -> None:
        """Sweep what this attempt's own workers left half-written; all of them have ended."""
        if self._thread:
            self.wait()
            self._sweep()  # what was written while that was at it
        with self._said():
            self._delete(checkpoint.half_written([*self._earlier, self._own]))

    def _sweep(self) -> None:
        with self._said():
            # A superseded driver that has not noticed yet could delete the next one's checkpoint.
            if self.attempt != max(self.folder.attempts()):
                return
            self._delete(checkpoint.half_written(self._holding))
            self._delete(superfluous(self._holding, self._own, self.spec, self.named))
            self._holding = [parent for parent in self._holding if _holds_any(parent)]

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Let storage that does not answer end nothing."""
        try:
            yield
        except (OSError, InfrastructureError) as error:
            self.problem = f"old checkpoints could not be listed: {error}"

    def _delete(self, folders: Sequence[Folder]) -> None:
        for folder in folders:
            try:
                folder.remove(first=checkpoint.MANIFEST)
            except OSError as error:
                self.problem = f"{folder}: this old checkpoint could not be deleted: {error}"


def _holds_any(parent: Folder) -> bool:
    found = checkpoint.candidates([parent]) or checkpoint.half_written([parent])
    return bool(found) or (parent / LINKED).exists()
