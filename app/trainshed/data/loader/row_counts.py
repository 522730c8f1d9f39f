"""What the feeder learns of a dataset's rows while its first pass goes on. No Ray here."""

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
    """What was known of a dataset's rows when a pass began.

    Args:
        counts: (fragments,) rows of each; -1 where nobody has read it to its end.
        are_all: whether all of them are, so that the pass is dealt out; else steps are taken as
            the rows come.
    """

    counts: Indices
    are_all: bool


class RowCounts:
    """The rows of each fragment of one dataset, as far as ranks have read.

    Args:
        plan: of the dataset.
        warn: says what does not end the run.
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
        """Return the rows of each fragment, shape (fragments,); -1 where nobody knows them."""
        with self._lock:
            return self._counts.copy()

    def known(self, at: EpochPass) -> Known:
        """Return what was known when somebody first asked for a pass: the same to all its ranks."""
        with self._lock:
            if at not in self._began:
                # For workers that are gone nobody asks.
                gone = [each for each in self._began if each.group < at.group]
                for each in gone:
                    del self._began[each]
                are_all = is_complete(self._counts)
                # What is complete changes no more, and may be large.
                self._began[at] = Known(self._counts if are_all else self._counts.copy(), are_all)
            return self._began[at]

    def take(self, counts: Mapping[int, int]) -> EpochPass | None:
        """Take in the rows of fragments; return the pass that has waited for the last of them.

        Raises:
            DataError: when a fragment has other rows than it had; then none is taken in.
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
        """Have a pass wait until all rows are known; return it where they are."""
        with self._lock:
            self._next = at
            return self._taken()

    def _taken(self) -> EpochPass | None:
        if self._next is None or not is_complete(self._counts):
            return None
        waited, self._next = self._next, None
        return waited


def check_rows(plan: DatasetPlan, fragment: int, rows: int, known: int) -> None:
    """Hold the rows of a fragment against what is known of them.

    Raises:
        DataError: when it has other rows than it had.
    """
    if known in (UNKNOWN, rows):
        return
    assert plan.source
    raise DataError(
        f"{plan.field}: {plan.source.fragments[fragment].path} gave {rows} rows where it gave "
        f"{known} before: files must stay as they are while a run reads them, and transforms must "
        "leave out the same rows each time"
    )
