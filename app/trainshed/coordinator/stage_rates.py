"""Who prepares the rows of a dataset side by side, and how many rows a second each could. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.data.sampler.stage_time import (
    AUGMENT,
    BATCH,
    COLLATE,
    COUNT,
    DEAL,
    DEVICE,
    FILL,
    NOTHING,
    READ,
    STARVED,
    TRANSFER,
    TRANSFORMS,
    WAIT,
    StageKey,
)
from trainshed_api.records import StageRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.stage_time import Spending

_ORDER = (
    COUNT,
    FILL,
    READ,
    TRANSFORMS,
    AUGMENT,
    DEAL,
    STARVED,
    TRANSFER,
    BATCH,
    COLLATE,
    DEVICE,
    WAIT,
)
_WORDS = {
    COUNT: "counting rows",
    FILL: "filling the cache",
    DEAL: "dealing rows out",
    STARVED: "a worker's wait for rows",
    TRANSFER: "bringing rows to a worker",
    BATCH: "making batches",
    DEVICE: "pinning batches for the device",
    WAIT: "training's wait for later batches",
}


@dataclass(frozen=True)
class Means:
    """What rows are prepared with.

    Args:
        cpus: of data.
        workers: number of them.
        cores: of the machine, where it is one alone.
        object_store: bytes of those of the data's nodes; None where nobody knows.
        epochs: of the run; None where nobody knows.
        reads_ahead: whether all rows are read before the first step, and never again.
    """

    cpus: int
    workers: int
    cores: int | None = None
    object_store: int | None = None
    epochs: int | None = None
    reads_ahead: bool = False


@dataclass(frozen=True)
class StageRate:
    """Tasks or threads that do the same stages side by side.

    Args:
        stages: seconds of all of them together.
        rows: that came through all stages.
        number: that go on at once.
        who: they are, for people.
        field: of the spec that sets the number; empty where none does.
        each: how many of that number one task takes.
        takers: how many workers are given each of the rows.
    """

    stages: Mapping[StageKey, float]
    rows: int
    number: int
    who: str
    field: str = ""
    each: int = 1
    takers: int = 1

    @property
    def row_seconds(self) -> float:
        """Return what a row takes of one of them."""
        return self.each * sum(self.stages.values()) / self.rows

    @property
    def rate(self) -> float:
        """Return the rows a second that all could do."""
        return self.number / self.row_seconds

    @property
    def given(self) -> float:
        """Return the rows a second that all workers together could be given."""
        return self.takers * self.rate

    @property
    def slowest(self) -> StageKey:
        """Return the stage that takes most."""
        return max(self.stages, key=self.stages.__getitem__)

    def say(self) -> str:
        """Return how many do it, for people."""
        return f"{self.number} {self.who}"


def slowest_stage(plan: DatasetPlan, spent: Spending, means: Means) -> StageRate | None:
    """Return the lane that gives workers the fewest rows a second; None where none was measured."""
    return min(lanes_of(plan, spent, means), key=lambda each: each.given, default=None)


def lanes_of(plan: DatasetPlan, spent: Spending, means: Means) -> list[StageRate]:
    """Return the lanes of a dataset that is prepared in every epoch, as far as was measured.

    Args:
        plan: of it.
        spent: by all of who prepares it.
        means: that it is prepared with.
    """
    found = sorted((key for key in spent if _is_streaming(plan, key)), key=_place)
    stages = {key: spent[key].seconds for key in found}
    given = spent.get(StageKey(plan.name, BATCH), NOTHING).rows
    in_worker = (TRANSFER, BATCH, COLLATE, DEVICE, *([AUGMENT] if plan.augments_in_worker else []))
    of_worker = {key: each for key, each in stages.items() if key.stage.startswith(in_worker)}
    of_data = {key: each for key, each in stages.items() if key not in of_worker}
    made = spent.get(StageKey(plan.name, DEAL), NOTHING).rows
    who = "CPU for data" if means.cpus == 1 else "CPUs for data"
    takers = 1 if plan.spec.split else means.workers  # a row that all get is made once
    threads = "worker's thread" if means.workers == 1 else "workers' threads"
    stage_rates = [
        StageRate(of_data, made, means.cpus, who, "data.cpus", plan.task_cpus, takers),
        StageRate(of_worker, given, means.workers, threads),
    ]
    return [
        stage_rate
        for stage_rate in stage_rates
        if stage_rate.rows and sum(stage_rate.stages.values()) > 0
    ]


def words_of(plan: DatasetPlan, key: StageKey) -> str:
    """Return what a stage is for people, such as `transform my_package:decode`."""
    part = next((each for each in plan.parts if each.name == key.dataset), plan)
    of = f" of {part.name}" if part is not plan else ""
    for kind, word, functions in (
        (TRANSFORMS, "transform", part.transforms),
        (AUGMENT, "augmentation", part.augments),
    ):
        for number, function in enumerate(functions):
            if key.stage == f"{kind}[{number}]":
                return f"{word} {function.use}{of}"
    if key.stage == COLLATE and plan.collate:
        return f"collating by {plan.collate.use}"
    if key.stage == READ and part.source:
        return f"reading {part.source.scan.format}{of}"
    return _WORDS.get(key.stage, "reading") + of


def stages_of(plans: Mapping[str, DatasetPlan], spent: Spending) -> list[StageRecord]:
    """Return what was spent on rows, by dataset and in the order in which rows meet the stages."""
    return [
        StageRecord(
            dataset=key.dataset,
            stage=words_of(plans[key.dataset], key),
            seconds=spent[key].seconds,
            rows=spent[key].rows,
        )
        for name in plans
        for key in sorted((key for key in spent if key.dataset == name), key=_place)
    ]


def _place(key: StageKey) -> tuple[int, str]:
    """Return where a stage comes among others."""
    return _ORDER.index(key.stage.partition("[")[0]), key.stage


def _is_streaming(plan: DatasetPlan, key: StageKey) -> bool:
    """Return whether a stage is work that is done while workers train."""
    part = {each.name: each for each in (plan, *plan.parts)}.get(key.dataset)
    if part is None or key.stage in (COUNT, FILL, STARVED, WAIT):
        return False
    # What fills a cache is done once; one on disk is read in every epoch.
    if key.stage == READ:
        return not part.is_filled or part.cache == "disk"
    return not (part.is_filled and key.stage.startswith(TRANSFORMS))
