"""Seconds of rows on their way to a device, by dataset and stage. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from trainshed_api.names import DATASETS

# Stages, in the order in which rows pass them.
TRANSFORMS, AUGMENT = "transforms", "augment"  # of functions, with an index in brackets
FILL = "fill"  # making all rows for a cache, once, in addition to its stages
COUNT = "count"  # a pass over all rows only to count them
READ = "read"
DEAL = "deal"  # splitting rows by rank, and passing them to Ray
STARVED = "starved"  # the batching thread waits for rows
TRANSFER = "transfer"
BATCH = "batch"
COLLATE = "collate"
DEVICE = "device"
WAIT = "wait"  # training waits for a batch after the first of a pass; rows of all batches

# Of a streaming task.
_MADE = (READ, TRANSFORMS, AUGMENT, DEAL)


class StageKey(NamedTuple):
    """A stage of a dataset, such as `transforms[0]` of `train`."""

    dataset: str
    stage: str


class Spent(NamedTuple):
    """Time of a stage: seconds of all threads and processes together, and number of rows."""

    seconds: float = 0.0
    rows: int = 0


Spending = Mapping[StageKey, Spent]
NOTHING = Spent()


def key_of(field: str, stage: str = "") -> StageKey:
    """Return the key of a field of the spec: of a dataset's stage, or of a function."""
    name, _, rest = field.removeprefix(f"{DATASETS}.").partition(".")
    return StageKey(name, stage or rest.removesuffix(".use"))


def added(first: Spending, second: Spending) -> dict[StageKey, Spent]:
    """Return the sum of both."""
    total = dict(first)
    for key, spent in second.items():
        had = total.get(key, NOTHING)
        total[key] = Spent(had.seconds + spent.seconds, had.rows + spent.rows)
    return total


def seconds_a_row(spent: Spending, dataset: str, parts: Collection[str] = ()) -> float | None:
    """Return the seconds to make a streamed row; None if unknown.

    Args:
        spent: by all tasks.
        dataset: of the row.
        parts: that it mixes.
    """
    rows = spent.get(StageKey(dataset, DEAL), NOTHING).rows
    seconds = sum(
        each.seconds
        for key, each in spent.items()
        if key.dataset in {dataset, *parts} and key.stage.startswith(_MADE)
    )
    return seconds / rows if rows else None


def since(now: Spending, before: Spending) -> dict[StageKey, Spent]:
    """Return the difference to an earlier sum."""
    return {
        key: Spent(spent.seconds - had.seconds, spent.rows - had.rows)
        for key, spent in now.items()
        if (had := before.get(key, NOTHING)) != spent
    }
