"""Why training waits for data: which stage is short, by how much, and what to change. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.coordinator.advice import (
    cache_for,
    cheaper,
    more_cpus,
    say_stage,
    why_counted,
)
from trainshed.coordinator.stage_rates import slowest_stage
from trainshed.data.sampler.stage_time import (
    AUGMENT,
    BATCH,
    COUNT,
    NOTHING,
    READ,
    STARVED,
    TRANSFER,
    WAIT,
    StageKey,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trainshed.coordinator.stage_rates import Means, StageRate
    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.stage_time import Spending

# Less of the time is nobody's trouble, and over less time nothing is known yet.
LEAST_PERCENT = 10.0
LEAST_SECONDS = 30.0
# What a lane could do by its stages' seconds is more than it does: starts and turns are not in it.
ENOUGH = 1.3
MOST_OF_IT = 0.5


@dataclass(frozen=True)
class StepTiming:
    """How the steps of a run go, in seconds of a worker.

    Args:
        training: the model computes.
        waiting: for data.
    """

    training: float
    waiting: float

    @property
    def percent(self) -> float:
        """Return the share of waiting."""
        whole = self.training + self.waiting
        return 100 * self.waiting / whole if whole > 0 else 0.0


@dataclass(frozen=True)
class Bottleneck:
    """What training waits for.

    Args:
        stage: that is short; the key of its dataset.
        message: for people, with what to change.
    """

    stage: StageKey
    message: str


def later_waits(spent: Spending) -> float:
    """Return the seconds of waiting for batches that are no first ones, of all datasets."""
    return sum(each.seconds for key, each in spent.items() if key.stage == WAIT)


def diagnose(
    plan: DatasetPlan, spent: Spending, means: Means, loop: StepTiming
) -> Bottleneck | None:
    """Return why training waits for a dataset; None where it hardly waits, or not for long.

    Args:
        plan: of the dataset.
        spent: by all of who prepares this one and others.
        means: that it is prepared with.
        loop: how the steps went meanwhile.
    """
    whole = loop.training + loop.waiting
    if whole < LEAST_SECONDS or loop.percent < LEAST_PERCENT:
        return None
    case = _Case(plan, spent, means, loop)
    ways: Sequence[Callable[[], tuple[StageKey, str] | None]] = (
        case.made_ahead,
        case.read_ahead,
        case.slow_stage,
        case.first_batches,
        case.no_rows,
    )
    stage, said = next(filter(None, (way() for way in ways)), case.uneven())
    return Bottleneck(stage, f"waiting for data takes {loop.percent:.0f} % of the time: {said}")


def say_limit(plan: DatasetPlan, spent: Spending, means: Means) -> str | None:
    """Return which stage limits a dataset where nobody trains; None where nothing was measured."""
    stage_rate = slowest_stage(plan, spent, means)
    if stage_rate is None:
        return None
    stage = stage_rate.slowest
    each = f"{stage_rate.rate / stage_rate.number:,.0f} rows/s each"
    advice = [
        *([f"more {stage_rate.field} ({each})"] if stage_rate.field else []),
        *cheaper(plan, stage, means),
    ]
    more = f"; what helps: {', or '.join(advice)}" if advice else ""
    return f"slowest: {say_stage(plan, stage_rate, stage)}{more}"


@dataclass(frozen=True)
class _Case:
    plan: DatasetPlan
    spent: Spending
    means: Means
    loop: StepTiming

    @property
    def _wanted(self) -> float:
        """Return the rows a second that training takes in all workers while it does not wait."""
        # Batches are made for evaluation, too; what a loop of the user's own takes nobody counts.
        taken = self.spent.get(self._key(WAIT), NOTHING).rows
        rows = taken or self.spent.get(self._key(BATCH), NOTHING).rows
        return rows / max(self.loop.training, 1e-9)

    @property
    def _first(self) -> float:
        """Return the seconds that a worker waited before first batches."""
        return max(0.0, self.loop.waiting - later_waits(self.spent) / self.means.workers)

    @property
    def _waits_at_first(self) -> bool:
        return self._first > MOST_OF_IT * self.loop.waiting

    def read_ahead(self) -> tuple[StageKey, str] | None:
        """Return which stage is slow where no row is read after the first step."""
        if not self.means.reads_ahead:
            return None
        said = f"{self.loop.waiting:.0f} s before the first step, until all rows were read"
        stage_rate = slowest_stage(self.plan, self.spent, self.means)
        if stage_rate is None:
            return self._key(READ), said
        stage = stage_rate.slowest
        advice = [
            *([f"set more {stage_rate.field}"] if stage_rate.field else []),
            *cheaper(self.plan, stage, self.means),
        ]
        more = f": {', or '.join(advice)}" if advice else ""
        return stage, f"{said}; {say_stage(self.plan, stage_rate, stage)}{more}"

    def made_ahead(self) -> tuple[StageKey, str] | None:
        """Return what all rows are read for before the first batch, where most waiting is then."""
        if not self._waits_at_first:
            return None
        parts = self.plan.parts or (self.plan,)
        seconds = f"{self._first:.0f} s before first batches"
        for part in parts:
            if (key := StageKey(part.name, COUNT)) in self.spent:
                of = f" of {part.name}" if part is not self.plan else ""
                why = why_counted(self.plan, part)
                return key, f"{seconds}, for rows{of} were counted before the first step{why}"
        filled = next((part for part in parts if part.is_filled), None)
        if filled is not None:
            said = f"the cache of {filled.name} was filled, once for all epochs: "
            said += f"more data.cpus than {self.means.cpus} fill it sooner"
            return StageKey(filled.name, READ), f"{seconds}, while {said}"
        if self.plan.spec.shuffle.mode == "global" and not self.plan.is_found_in_memory:
            said = "mode: global reads and sorts all rows in each epoch before its first batch"
            advice = ["mode: blocks with a bufferSize", *cache_for(self.plan, self.means)]
            return self._key(READ), f"{seconds}, for {said}: set {', or '.join(advice)}"
        return None

    def slow_stage(self) -> tuple[StageKey, str] | None:
        """Return the stage that is too slow for what training takes, with its lane's numbers."""
        stage_rate = slowest_stage(self.plan, self.spent, self.means)
        if stage_rate is None or stage_rate.given > ENOUGH * self._wanted:
            return None
        stage = stage_rate.slowest
        advice = [*self._more(stage_rate, stage), *cheaper(self.plan, stage, self.means)]
        wanted = self._wanted / stage_rate.takers
        said = f"{say_stage(self.plan, stage_rate, stage)}, training takes {wanted:,.0f}"
        return stage, f"{said}: {', or '.join(advice)}"

    def first_batches(self) -> tuple[StageKey, str] | None:
        """Return what first batches wait for where later ones come in time."""
        if not self._waits_at_first:
            return None
        seconds = f"{self._first:.0f} s before first batches of epochs"
        if rows := self.plan.shuffle_buffer_rows:
            said = f"for which a buffer of {rows:,} rows fills up: set a smaller shuffle.bufferSize"
        else:
            said = "later ones come in time: make epochs longer by rowsPerEpoch"
        return self._key(READ), f"{seconds}, {said}"

    def no_rows(self) -> tuple[StageKey, str] | None:
        """Return what is wrong where rows do not come though those that make them have time."""
        starved = self.spent.get(self._key(STARVED), NOTHING).seconds / self.means.workers
        if starved < MOST_OF_IT * self.loop.waiting:
            return None
        said = (
            f"no rows came for {starved:.0f} s though reading and transforming them takes less "
            f"than data.cpus: {self.means.cpus} can do: are enough CPUs, and space in the object "
            "store, free for data?"
        )
        return self._key(STARVED), said

    def uneven(self) -> tuple[StageKey, str]:
        """Return the remaining case: batches are fast enough on average, but uneven."""
        ahead = self.plan.spec.feed.prefetch_batches
        said = f"batches come fast enough, but unevenly: set feed.prefetchBatches to {2 * ahead}"
        if not ahead:
            said = "each batch is made when it is asked for: set feed.prefetchBatches to 2"
        return self._key(BATCH), said

    def _more(self, stage_rate: StageRate, stage: StageKey) -> Iterator[str]:
        """Yield how more of a lane would do it."""
        plan, means = self.plan, self.means
        number = max(
            stage_rate.number + 1,
            math.ceil(self._wanted / stage_rate.takers * stage_rate.row_seconds),
        )
        if stage_rate.field == "data.cpus":
            yield more_cpus(means, number, stage_rate.number)
        elif stage.stage.startswith(AUGMENT):
            yield "set cache: objects, with which the data's CPUs augment"
        elif stage.stage == TRANSFER:
            yield "have data.placement name the workers' nodes"
        elif not plan.spec.feed.prefetch_batches:
            yield "set feed.prefetchBatches to 2"
        else:
            yield "train with more workers"

    def _key(self, stage: str) -> StageKey:
        return StageKey(self.plan.name, stage)
