"""Who may write progress when: all runs together so often, and each in its turn."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# An API server takes three times as many, but it has others to serve: 40 with what is saved for a
# burst, averaged over a minute. Transitions are written at once; progress has what they leave.
WRITES_PER_SECOND = 39.0
# What a quiet time saves for a burst.
MOST_SAVED_SECONDS = 1.0
# Transitions that count, and for how long they may come faster. When a thousand runs begin at once
# their writes are made as well, but progress does not wait for half a minute until they are paid:
# with these, 500 runs have their turns within 20 s whatever begins and ends beside them.
TRANSITIONS_PER_SECOND = 10.0
MOST_OWED_SECONDS = 2.0


class Allowance:
    """Gives each run that asks a separate moment, in the order of their requests.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock() - MOST_SAVED_SECONDS
        self._counted = clock()
        self._moments: dict[str, float] = {}

    def take(self, uid: str) -> None:
        """Count a write that cannot wait, unless too many do; a run that has a moment uses that."""
        if self._moments.pop(uid, None) is not None:
            return
        now = self._clock()
        counted = max(self._counted, now) + 1.0 / TRANSITIONS_PER_SECOND
        if counted <= now + MOST_OWED_SECONDS:
            self._counted = counted
            self._reserve()

    def wait(self, uid: str) -> float | None:
        """Return the seconds until the moment of this run; None: it is there, and used."""
        moment = self._moments.get(uid)
        if moment is None:
            moment = self._moments[uid] = self._reserve()
        left = moment - self._clock()
        if left > 0:
            return left
        del self._moments[uid]
        return None

    def forget(self, uid: str) -> None:
        """Forget a run that is gone."""
        self._moments.pop(uid, None)

    def _reserve(self) -> float:
        moment = max(self._next, self._clock() - MOST_SAVED_SECONDS)
        self._next = moment + 1.0 / WRITES_PER_SECOND
        return moment
