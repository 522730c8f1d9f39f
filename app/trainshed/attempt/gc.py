"""Finds what killed runs left in a storage: for `storage gc`.

A resumed run cleans up itself (retention.py). This is for runs that are not started again, and
finds only what no attempt of any run can use.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.attempt import resume
from trainshed.attempt.disk_cache_gc import unneeded_rows
from trainshed.attempt.retention import superfluous
from trainshed.checkpoint.store import MANIFEST, half_written
from trainshed.storage.run_folder import ATTEMPTS, ROWS, ROWS_LIST, RunFolder, read_record
from trainshed_api.v1alpha1 import TrainingRunSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.storage.folder import Folder

# What was written within an hour may be a driver's that is cut off and does not know it.
QUIET_SECONDS = 3600.0
UNFINISHED = "is incomplete"
SUPERFLUOUS = "is beyond checkpoint.keep"
ROWS_KEPT = "is a disk cache that no attempt can use"


@dataclass(frozen=True)
class Removable:
    """A folder that may go.

    Args:
        folder: that one.
        bytes: what is in it.
        why: it may go.
        first: the file without which the others mean nothing.
    """

    folder: Folder
    bytes: int
    why: str
    first: str = MANIFEST

    def delete(self) -> None:
        """Delete it."""
        self.folder.remove(first=self.first)


def leftovers(storage: Folder, age_seconds: float = QUIET_SECONDS) -> Iterator[Removable]:
    """Yield what may go of all runs below a storage; those that run now are left alone.

    age_seconds: for which nothing may have been written to what goes.
    """
    for owner in storage.names():
        for name in (storage / owner).names():
            run = RunFolder(storage / owner / name)
            spec = _spec_of(run)
            if spec is not None and not _has_links(run):
                for found in _of_run(run, spec):
                    # Who was believed dead for a while may be writing it.
                    ages = (time.time() - each.modified for each in found.folder.tree())
                    if all(age >= age_seconds for age in ages) and not _runs(run):
                        yield found


def _of_run(run: RunFolder, spec: TrainingRunSpec) -> Iterator[Removable]:
    numbers = run.attempts()
    if not numbers or _runs(run):
        return
    for folder in unneeded_rows(run):
        yield replace(_leftover(folder, ROWS_KEPT), first=ROWS_LIST)
    for folder in half_written([run.checkpoints(number) for number in numbers]):
        yield _leftover(folder, UNFINISHED)
    wanted = spec.checkpoint
    numbers = resume.ancestors(run, wanted.resume, None, surely=True)
    # A run that names a checkpoint began at one that may be any: nothing of it is judged here.
    if len(numbers) > 1 and wanted.resume in ("latest", "never"):
        *earlier, own = (run.checkpoints(number) for number in numbers)
        for folder in superfluous(earlier, own, wanted, named=None):
            yield _leftover(folder, SUPERFLUOUS)


def _runs(run: RunFolder) -> bool:
    numbers = run.attempts()
    return bool(numbers) and run.is_alive(numbers[-1])


def _has_links(run: RunFolder) -> bool:
    """Say whether a way below the run leads elsewhere, where others may have put what is theirs."""
    ways = [run.at, run.at / ATTEMPTS]
    for number in run.attempts():
        ways += [run.attempt(number), run.checkpoints(number), run.attempt(number) / ROWS]
    return any(way.path is not None and way.path.is_symlink() for way in ways)


def _spec_of(run: RunFolder) -> TrainingRunSpec | None:
    record = read_record(run.at)
    try:
        return TrainingRunSpec.model_validate(record.spec) if record else None
    except ValidationError:  # a later release wrote it, and knows what it means
        return None


def _leftover(folder: Folder, why: str) -> Removable:
    return Removable(folder, sum(each.bytes for each in folder.tree()), why)
