"""Decides when to report that training waits for data: during a run and at its end. Pure.

While it goes on only the last half an hour of the loop counts: a run of weeks that begins to wait
is to be told so, and one that waited in its first minutes does not wait for weeks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trainshed.coordinator.bottleneck import MOST_OF_IT, StepTiming, diagnose, later_waits
from trainshed.data.sampler.dataset_plan import main_dataset
from trainshed.data.sampler.stage_time import NOTHING, WAIT, Spending, StageKey, since

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.coordinator.bottleneck import Bottleneck
    from trainshed.coordinator.stage_rates import Means
    from trainshed.data.sampler.dataset_plan import DatasetPlan

TRAINING, WAITING = "training", "waitingForData"
# Of a worker's loop, in seconds: what is recent, and in which steps that moves on.
RECENT, STEP = 1800.0, 180.0


class _Mark(NamedTuple):
    """Where the time of the attempt had gone at some moment, and what had been spent on rows."""

    seconds: Mapping[str, float]
    spent: Spending

    @property
    def loop(self) -> float:
        """Return the seconds that steps and their waiting had taken."""
        return sum(self.seconds.get(bucket, 0.0) for bucket in (TRAINING, WAITING))


class DataWaitMonitor:
    """Watches the waiting of one attempt; what an earlier worker group did does not count.

    Args:
        plans: by dataset.
        means: that they are prepared with.
    """

    def __init__(self, plans: Mapping[str, DatasetPlan], means: Means) -> None:
        self._plans = plans
        self._main = main_dataset(plans)
        self._means = means
        self._began = _Mark({}, {})
        # From where on things are recent, and later ones.
        self._marks = deque([self._began])
        self._told: StageKey | None = None
        self._has_passed = False
        self.now: Bottleneck | None = None
        """What training waits for as far as `notice` knows; None where it hardly waits."""

    def begin(self, seconds: Mapping[str, float], spent: Spending) -> None:
        """Take in that a worker group begins."""
        self._began = _Mark(dict(seconds), spent)
        self._marks = deque([self._began])
        self.now = None

    def verdict(self, seconds: Mapping[str, float], spent: Spending) -> Bottleneck | None:
        """Return what training waited for in all; None where it hardly did.

        Args:
            seconds: where the time of the attempt went until now, by bucket.
            spent: on rows until now.
        """
        return self._since(self._began, _Mark(seconds, spent))

    def _since(self, before: _Mark, mark: _Mark) -> Bottleneck | None:
        if self._main is None:
            return None
        training, waiting = (
            max(0.0, mark.seconds.get(bucket, 0.0) - before.seconds.get(bucket, 0.0))
            for bucket in (TRAINING, WAITING)
        )
        loop, spent = StepTiming(training, waiting), since(mark.spent, before.spent)
        name = self._waited_for(self._main, loop, spent)
        found = diagnose(self._plans[name], spent, self._means, loop)
        if found is None or name == self._main:
            return found
        return replace(found, message=f"dataset {name}: {found.message}")

    def _waited_for(self, main: str, loop: StepTiming, spent: Spending) -> str:
        """Return the dataset of whose later batches most waiting is; the main one where it is not.

        Training may take batches of several datasets, and of first ones nobody tells whose.
        """
        if later_waits(spent) < MOST_OF_IT * loop.waiting * self._means.workers:
            return main
        waits = {name: spent.get(StageKey(name, WAIT), NOTHING).seconds for name in self._plans}
        return max((main, *waits), key=waits.__getitem__)

    def notice(
        self, seconds: Mapping[str, float], spent: Spending, *, is_over: bool = False
    ) -> str | None:
        """Return the report that is due now; it differs at the end and when waiting starts again.

        To be called often: what is recent it knows by that.
        """
        mark = _Mark(dict(seconds), spent)
        self._look(mark)
        found = self._since(self._began, mark) if is_over else self.now
        self._has_passed |= found is None
        if found is None or found.stage == self._told:
            return None
        if self._told is not None and not (is_over or self._has_passed):
            return None
        self._told, self._has_passed = found.stage, False
        return found.message

    def _look(self, mark: _Mark) -> None:
        """Take in how it goes now. What is said changes in steps, unless it is something else."""
        has_moved = mark.loop - self._marks[-1].loop >= STEP
        if has_moved:
            self._marks.append(mark)
        while len(self._marks) > 1 and mark.loop - self._marks[1].loop >= RECENT:
            self._marks.popleft()
        found = self._since(self._marks[0], mark)
        if has_moved or not (found and self.now and found.stage == self.now.stage):
            self.now = found
