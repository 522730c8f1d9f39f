"""Where the seconds of rows go on their way to a device: by dataset and stage. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from trainshed_api.rules import DATASETS

# Stages, in the order in which rows meet them.
TRANSFORMS, AUGMENT = "transforms", "augment"  # of functions, with a position in brackets
FILL = "fill"  # making all rows for a cache, once, beside what is metered in it
COUNT = "count"  # a pass over all rows for nothing but their number
READ = "read"
DEAL = "deal"  # cutting rows up for ranks, and handing them to Ray
STARVED = "starved"  # who makes batches waits for rows
TRANSFER = "transfer"
BATCH = "batch"
COLLATE = "collate"
DEVICE = "device"
WAIT = "wait"  # who trains waits for a batch that is not the first of a pass; rows of all that came

# Of a task that streams.
_MADE = (READ, TRANSFORMS, AUGMENT, DEAL)


class StageKey(NamedTuple):
    """A stage of a dataset, such as `transforms[0]` of `train`."""

    dataset: str
    stage: str


class Spent(NamedTuple):
    """What a stage took: seconds of all threads and processes together, and for how many rows."""

    seconds: float = 0.0
    rows: int = 0


Spending = Mapping[StageKey, Spent]
NOTHING = Spent()


def key_of(field: str, stage: str = "") -> StageKey:
    """Return the key of a field of the spec: of a dataset and a stage of it, or of a function."""
    name, _, rest = field.removeprefix(f"{DATASETS}.").partition(".")
    return StageKey(name, stage or rest.removesuffix(".use"))


def added(first: Spending, second: Spending) -> dict[StageKey, Spent]:
    """Return what both took."""
    total = dict(first)
    for key, spent in second.items():
        had = total.get(key, NOTHING)
        total[key] = Spent(had.seconds + spent.seconds, had.rows + spent.rows)
    return total


def seconds_a_row(spent: Spending, dataset: str, parts: Collection[str] = ()) -> float | None:
    """Return what a row that streamed took to be made; None where nobody knows yet.

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
    """Return what was added to what was spent before."""
    return {
        key: Spent(spent.seconds - had.seconds, spent.rows - had.rows)
        for key, spent in now.items()
        if (had := before.get(key, NOTHING)) != spent
    }
