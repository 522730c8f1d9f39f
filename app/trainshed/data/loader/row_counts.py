"""The row counts of a dataset, collected by the data server in the first pass. No Ray here."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from trainshed.data.sampler.description import other_counts
from trainshed.data.sampler.first_pass import UNKNOWN, is_complete, nothing_known
from trainshed.data.sources.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.epoch_pass import EpochPass
    from trainshed.data.sampler.permutation import Indices


class Known(NamedTuple):
    """The row counts that were known when a pass began.

    Args:
        counts: (fragments,) rows of each; -1 if it has not been read to its end.
        are_all: whether all are known, so that the pass is split by rank; otherwise ranks take
            steps from the stream of all rows.
    """

    counts: Indices
    are_all: bool


class RowCounts:
    """The rows of each fragment of one dataset, as far as ranks have read.

    Args:
        plan: of the dataset.
        warn: reports problems that do not end the run.
    """

    def __init__(self, plan: DatasetPlan, warn: Callable[[str], None]) -> None:
        self._plan = plan
        self._warn = warn
        self._counts = nothing_known(plan)
        self._began: dict[EpochPass, Known] = {}
        self._next: EpochPass | None = None
        self._lock = threading.Lock()

    @property
    def counts(self) -> Indices:
        """Return the rows of each fragment, shape (fragments,); -1 if unknown."""
        with self._lock:
            return self._counts.copy()

    def known(self, at: EpochPass) -> Known:
        """Return the counts at the first request for a pass: the same for all its ranks."""
        with self._lock:
            if at not in self._began:
                # Workers that have ended do not ask.
                gone = [each for each in self._began if each.group < at.group]
                for each in gone:
                    del self._began[each]
                are_all = is_complete(self._counts)
                # Complete counts do not change, and may be large.
                self._began[at] = Known(self._counts if are_all else self._counts.copy(), are_all)
            return self._began[at]

    def take(self, counts: Mapping[int, int]) -> EpochPass | None:
        """Record the rows of fragments; return the passes that waited for the last of them.

        Raises:
            DataError: if a fragment has other rows than before; then none is recorded.
        """
        with self._lock:
            for fragment, rows in counts.items():
                check_rows(self._plan, fragment, rows, int(self._counts[fragment]))
            was_complete = is_complete(self._counts)
            for fragment, rows in counts.items():
                self._counts[fragment] = rows
            are_new = not was_complete and is_complete(self._counts)
            if are_new and (difference := other_counts(self._plan, self._counts)):
                self._warn(difference.note)
            return self._taken()

    def wait(self, at: EpochPass) -> EpochPass | None:
        """Make a pass wait until all rows are known; return it if they are."""
        with self._lock:
            self._next = at
            return self._taken()

    def _taken(self) -> EpochPass | None:
        if self._next is None or not is_complete(self._counts):
            return None
        waited, self._next = self._next, None
        return waited


def check_rows(plan: DatasetPlan, fragment: int, rows: int, known: int) -> None:
    """Compare the rows of a fragment with those that are known.

    Raises:
        DataError: if they differ.
    """
    if known in (UNKNOWN, rows):
        return
    assert plan.source
    raise DataError(
        f"{plan.field}: {plan.source.fragments[fragment].path} gave {rows} rows where it gave "
        f"{known} before: files must not change while a run reads them, and transforms must keep "
        "the same rows each time"
    )
