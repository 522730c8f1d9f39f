"""When it is told that training waits for data: once while it goes on, and at the end. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainshed.coordinator.doctor import MOST_OF_IT, Loop, diagnose, later_waits
from trainshed.data.order.plan import main_dataset
from trainshed.data.order.spending import NOTHING, WAIT, Key, since

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.coordinator.doctor import Verdict
    from trainshed.coordinator.lanes import Means
    from trainshed.data.order.plan import DatasetPlan
    from trainshed.data.order.spending import Spending

TRAINING, WAITING = "training", "waitingForData"


class Waits:
    """Watches the waiting of one attempt; what an earlier worker group did does not count.

    Args:
        plans: by dataset.
        means: that they are prepared with.
    """

    def __init__(self, plans: Mapping[str, DatasetPlan], means: Means) -> None:
        self._plans = plans
        self._main = main_dataset(plans)
        self._means = means
        self._began: tuple[Mapping[str, float], Spending] = ({}, {})
        self._told: Key | None = None

    def begin(self, seconds: Mapping[str, float], spent: Spending) -> None:
        """Take in that a worker group begins."""
        self._began = dict(seconds), spent

    def verdict(self, seconds: Mapping[str, float], spent: Spending) -> Verdict | None:
        """Return what training waits for; None where it hardly waits.

        Args:
            seconds: where the time of the attempt went until now, by bucket.
            spent: on rows until now.
        """
        if self._main is None:
            return None
        before, spent_before = self._began
        training, waiting = (
            max(0.0, seconds.get(bucket, 0.0) - before.get(bucket, 0.0))
            for bucket in (TRAINING, WAITING)
        )
        loop, spent = Loop(training, waiting), since(spent, spent_before)
        name = self._waited_for(self._main, loop, spent)
        found = diagnose(self._plans[name], spent, self._means, loop)
        if found is None or name == self._main:
            return found
        return replace(found, message=f"dataset {name}: {found.message}")

    def _waited_for(self, main: str, loop: Loop, spent: Spending) -> str:
        """Return the dataset of whose later batches most waiting is; the main one where it is not.

        Training may take batches of several datasets, and of first ones nobody tells whose.
        """
        if later_waits(spent) < MOST_OF_IT * loop.waiting * self._means.workers:
            return main
        waits = {name: spent.get(Key(name, WAIT), NOTHING).seconds for name in self._plans}
        return max((main, *waits), key=waits.__getitem__)

    def notice(
        self, seconds: Mapping[str, float], spent: Spending, *, is_over: bool = False
    ) -> str | None:
        """Return what is to be told now; at the end again where it is something else."""
        if self._told is not None and not is_over:
            return None
        found = self.verdict(seconds, spent)
        if found is None or found.stage == self._told:
            return None
        self._told = found.stage
        return found.message
