"""The time budget: every second of a run's wall time in a named bucket.

The one place that knows the buckets' order, their words and what each means to a reader; the
report and the terminal both show it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

BUCKETS: dict[str, tuple[str, str]] = {
    "training": ("training", "the model computing: forward, backward, optimizer"),
    "waitingForData": ("waiting for data", "workers waiting for their next batch"),
    "evaluating": ("evaluating", "scoring held-out data"),
    "checkpointing": ("checkpointing", "training paused to take a checkpoint"),
    "starting": ("starting", "Ray, the workers, imports and the first batch"),
    "stopping": ("stopping", "finishing the last checkpoint and shutting down"),
    "lost": ("lost", "repeating work after an interruption"),
    "queued": ("queued", "waiting for capacity in the cluster"),
    "suspended": ("suspended", "paused on request"),
    "provisioning": ("provisioning", "waiting for nodes"),
}
# A shorter run is mostly its start: its goodput says nothing of a long one's.
LEAST_SECONDS_FOR_GOODPUT = 300.0
# Less than this share of the wall time is rounding, not a bucket that somebody forgot.
SMALLEST_REMAINDER = 0.0005


@dataclass(frozen=True)
class TimePart:
    """One bucket: its share of the wall time in percent, and how to speak of it."""

    bucket: str
    label: str
    meaning: str
    seconds: float
    percent: float


def split_time(seconds: Mapping[str, float], wall_seconds: float | None) -> list[TimePart]:
    """The buckets that hold anything, in a fixed order, and what no bucket accounts for."""
    known = sum(seconds.values())
    wall = max(wall_seconds or 0.0, known)
    if wall <= 0:
        return []
    order = [*BUCKETS, *(bucket for bucket in seconds if bucket not in BUCKETS)]
    parts = []
    for bucket in order:
        spent = seconds.get(bucket, 0.0)
        if spent > 0:
            label, meaning = BUCKETS.get(bucket, (bucket, ""))
            parts.append(TimePart(bucket, label, meaning, spent, 100 * spent / wall))
    rest = wall - known
    if rest > SMALLEST_REMAINDER * wall:
        meaning = "wall time outside all other buckets"
        parts.append(TimePart("other", "not accounted for", meaning, rest, 100 * rest / wall))
    return parts
