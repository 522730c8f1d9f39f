"""The data of a checkpoint's steps, and whether it is still the same.

Pure. Names, sizes and row counts come from the file metadata of the plan; blocks are counted
where they are made. Modification times are not used: volumes are copied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sampler.dataset_plan import OrderFingerprint
from trainshed.data.sampler.first_pass import UNKNOWN
from trainshed.data.sampler.fragments import File
from trainshed_api.errors import Problem, SpecError
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.permutation import Indices

# With more files a checkpoint holds only their digest, as it is written every few minutes.
MOST_FILES = 1000
REMEDY = (
    "as when this epoch began, or its rows repeat or are missing: restore that, set "
    "spec.checkpoint.resume to a checkpoint at an epoch's end, or start over with --fresh; in a "
    "cluster, delete the run and apply it again"
)


class Described(Record):
    """What the order of a dataset's rows depended on.

    `rows` are those after the transforms, `digest` is a SHA-256 over all files, empty if a
    function makes the dataset; `counts` are the rows of each block if no metadata has them, -1
    for one that has not been read yet.
    `block_rows` is for earlier releases, whose order depended on it: they refuse a checkpoint
    without it, which is right only in the middle of an epoch.
    """

    rows: int
    num_files: int
    digest: str
    files: tuple[File, ...] = ()
    counts: tuple[int, ...] | None = None
    block_rows: int | None = None


@dataclass(frozen=True)
class DataChange:
    """A difference from the checkpoint, with its field."""

    field: str
    got: str
    was: str

    @property
    def problem(self) -> Problem:
        """Return it as an error that prevents resuming the current epoch."""
        return Problem(self.field, self.got, f"{self.was}, {REMEDY}")

    @property
    def note(self) -> str:
        """Return it as a warning."""
        return (
            f"{self.field}: {self.got}, where the checkpoint had {self.was}: "
            "training continues with the data as they are now"
        )


def describe(plan: DatasetPlan, counts: Indices | None) -> Described | None:
    """Return the description of a dataset's rows; None if they have not been counted yet.

    Args:
        plan: of the dataset.
        counts: rows of each block after the transforms, if they were counted.
    """
    if plan.parts:
        return None
    files = plan.source.files if plan.source else ()
    if counts is None:
        counts = _known_counts(plan)
        if counts is None:
            return None
    told = plan.has_row_counts and np.array_equal(counts, plan.counts)
    return Described(
        rows=int(counts[counts != UNKNOWN].sum()),
        num_files=len(files),
        digest=plan.source.digest if plan.source else "",
        files=tuple(files) if len(files) <= MOST_FILES else (),
        counts=None if told else tuple(counts.tolist()),
        block_rows=plan.block_rows,
    )


def _known_counts(plan: DatasetPlan) -> Indices | None:
    """Return the rows of each block from a checkpoint or the files, without counting."""
    if plan.kept and plan.kept.counts is not None and plan.counts_hold:
        return kept_counts(plan)
    if not plan.has_row_counts or (plan.is_filled and plan.transforms and plan.kept is None):
        return None  # transforms may leave rows out
    return plan.counts


def keep_order(
    plans: Mapping[str, DatasetPlan],
    described: Mapping[str, Described],
    *,
    mid_pass: Mapping[str, bool],
) -> tuple[dict[str, DatasetPlan], list[str]]:
    """Return the plans with the row order of a checkpoint, and the warnings about changes.

    Args:
        plans: by dataset.
        described: by dataset, the checkpoint's description; some may be missing.
        mid_pass: by dataset that the steps use, whether it was written in the middle of a pass over
            it.

    Raises:
        SpecError: if the rows of a pass in progress have changed.
    """
    under_way, held = set[str](), set[str]()
    for name, is_mid_pass in mid_pass.items():
        names = {name, *(part.name for part in plans[name].parts)}
        if is_mid_pass:
            under_way |= names
        # A pass of a fixed number of rows may end in the middle of a dataset's rows.
        if is_mid_pass or plans[name].spans_epochs:
            held |= names
    going_on, notes = dict(plans), []
    for name, plan in plans.items():
        old = described.get(name)
        if old is None:
            continue
        difference = _other_files(plan, old) or _other_rows(plan, old)
        if difference is None:
            going_on[name] = replace(plan, kept=OrderFingerprint(old.counts, name in held))
        elif name in under_way:
            raise SpecError([difference.problem])
        else:
            notes.append(difference.note)
    return going_on, notes


def other_blocks(plan: DatasetPlan, counts: Indices, wanted: Indices) -> DataChange:
    """Return how blocks that were made differ from the wanted ones.

    Args:
        plan: of the dataset.
        counts: rows of each block.
        wanted: rows that each should have.
    """
    return DataChange(plan.field, _say_blocks(counts), _say_blocks(wanted))


def other_counts(plan: DatasetPlan, counts: Indices) -> DataChange | None:
    """Return how rows that were counted again differ from a checkpoint's; None if they do not.

    Args:
        plan: of the dataset.
        counts: rows of each fragment.
    """
    before = kept_counts(plan)
    if before is None:
        return None
    before = np.where(before == UNKNOWN, counts, before)
    return None if np.array_equal(counts, before) else other_blocks(plan, counts, before)


def kept_counts(plan: DatasetPlan) -> Indices | None:
    """Return the rows that each block must have after the transforms; None for any."""
    if plan.kept is None:
        return None
    if plan.kept.counts is None:
        told = plan.source is not None and plan.source.rows is not None
        return plan.counts if told else None
    return np.asarray(plan.kept.counts, dtype=np.int64)


def _other_files(plan: DatasetPlan, old: Described) -> DataChange | None:
    """Return the first file that differs."""
    files = plan.source.files if plan.source else ()
    if old.digest == (plan.source.digest if plan.source else ""):
        return None
    field = f"{plan.field}.read"
    if not old.files:
        was = f"{old.num_files} files with {old.rows} rows"
        return DataChange(field, f"{len(files)} files with {plan.rows} rows", was)
    before, now = ({file.path: file for file in each} for each in (old.files, files))
    path = min(path for path in before | now if before.get(path) != now.get(path))
    if path not in now:
        return DataChange(field, f"no file {path}", f"one with {_say(before[path])}")
    got = f"{path} with {_say(now[path])}"
    if path not in before:
        return DataChange(field, got, "no such file")
    if _say(before[path]) == _say(now[path]):
        return DataChange(field, f"{got} in other row groups", "those that it had")
    return DataChange(field, got, _say(before[path]))


def _other_rows(plan: DatasetPlan, old: Described) -> DataChange | None:
    """Return that row counts now come from the files and did not before, or the reverse."""
    was_told = old.counts is None
    if old.counts is not None and plan.source and not plan.is_filled:
        now, before = len(plan.source.fragments), len(old.counts)
        if now != before:  # another release may split them differently
            return DataChange(f"{plan.field}.read", f"{now} fragments", f"{before} fragments")
    if plan.is_filled or was_told == plan.has_row_counts:
        return None
    got = f"{plan.rows} rows after them" if plan.has_row_counts else "rows that only reading tells"
    return DataChange(f"{plan.field}.transforms", got, f"{old.rows} rows after them")


def _say(file: File) -> str:
    rows = "" if file.rows is None else f"{file.rows} rows in "
    return f"{rows}{file.bytes} bytes"


def _say_blocks(counts: Indices) -> str:
    return f"{int(counts.sum())} rows in {len(counts)} blocks after the transforms"
