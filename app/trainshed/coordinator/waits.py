"""When it is told that training waits for data: once while it goes on, and at the end. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.coordinator.doctor import Loop, diagnose
from trainshed.data.order.plan import main_dataset
from trainshed.data.order.spending import since

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.coordinator.doctor import Verdict
    from trainshed.coordinator.lanes import Means
    from trainshed.data.order.plan import DatasetPlan
    from trainshed.data.order.spending import Key, Spending

TRAINING, WAITING = "training", "waitingForData"


class Waits:
    """Watches the waiting of one attempt; what an earlier worker group did does not count.

    Args:
        plans: by dataset.
        means: that they are prepared with.
    """

    def __init__(self, plans: Mapping[str, DatasetPlan], means: Means) -> None:
        name = main_dataset(plans)
        self._plan = plans[name] if name else None
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
        if self._plan is None:
            return None
        before, spent_before = self._began
        training, waiting = (
            max(0.0, seconds.get(bucket, 0.0) - before.get(bucket, 0.0))
            for bucket in (TRAINING, WAITING)
        )
        loop = Loop(training, waiting)
        return diagnose(self._plan, since(spent, spent_before), self._means, loop)

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
