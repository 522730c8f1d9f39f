"""How numbers, times and sizes read in the report and on the terminal. Pure."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from trainshed_api.progress import ResumePoint, StepName, Stopping

MINUTE, HOUR, DAY = 60, 3_600, 86_400
# Below SHORT seconds tenths matter, below TINY milliseconds do.
SHORT, TINY = 10, 0.1
# Digits of a whole number beyond this are noise: they are further than a float can tell apart.
LARGEST_EXACT = 1e15
THOUSAND = 1_000
PRECISE_PERCENT = 9.95
NEARLY_ALL, ALL = 99.0, 100.0
MISSING = "\N{EN DASH}"
# But for a tab; and what turns the direction of letters, so that they read as other ones.
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def say_plainly(text: str) -> str:
    """A line of somebody else's, which must not write to the reader's clipboard or title."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def say_lines_plainly(text: str) -> str:
    """The same of several lines, which stay lines."""
    return "\n".join(map(say_plainly, text.split("\n")))


def say_duration(seconds: float | None) -> str:
    """20 ms, 8.4 s, 42 s, 3 min 20 s, 2 h 05 min, 3 d 4 h."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if 0 < seconds < TINY:
        return f"{1_000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < SHORT else say_whole_seconds(round(seconds))


def say_whole_seconds(seconds: float) -> str:
    """A duration that ticks: no fractions, so that it does not flicker."""
    whole = int(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02d} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02d} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def say_number(value: float | None) -> str:
    """Four digits that mean something, thousands apart: 0.9722, 5,210, nan."""
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= THOUSAND or float(value).is_integer():
        return f"{value:,.0f}" if abs(value) < LARGEST_EXACT else f"{value:.3e}"
    return f"{value:.4g}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: 1 file, 1,024 files."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def say_count(value: float | None) -> str:
    """A whole number with thousands apart."""
    return MISSING if value is None else f"{value:,.0f}"


def say_place(epoch: int | None, step: int | None, step_name: StepName = "step") -> str:
    """How far along a run: epoch 3, step 1,200, or round 24; only what is known."""
    if step_name == "round" and step is not None:
        return f"round {step:,}"  # all rounds are one epoch
    parts = [] if epoch is None else [f"epoch {epoch:,}"]
    if step is not None:
        parts.append(f"step {step:,}")
    return ", ".join(parts)


def say_resume(point: ResumePoint | None, step_name: StepName = "step") -> str:
    """Where training went on: the step, else the epoch, else just that there was a checkpoint."""
    if point is None:
        return "the beginning"
    epoch = point.epoch if point.step is None else None
    return say_place(epoch, point.step, step_name) or "a checkpoint"


def say_stop(event: Stopping) -> str:
    """How a run stops that was asked to, and how long that may take."""
    ways = {
        "checkpoint": "writing a checkpoint",
        "rows": (
            "some workers wait for rows; without them the newest checkpoint stands, and the run "
            "ends"
        ),
        "reportedCheckpoint": "ending when the training function reports its next checkpoint, or",
        "report": "ending when the training function reports next, or",
        "end": "ending",
    }
    return f"{ways[event.until]} within {say_duration(event.grace_seconds)}"


def say_percent(value: float | None) -> str:
    """2.0 % below ten, 61 % above; 99.7 % near a hundred, which only all of it is."""
    if value is None or not math.isfinite(value):
        return MISSING
    if NEARLY_ALL <= value < ALL:
        return f"{min(value, ALL - 0.1):.1f} %"
    return f"{value:.1f} %" if abs(value) < PRECISE_PERCENT else f"{value:.0f} %"


def say_bytes(size: float) -> str:
    """1.8 MB, 24 GB: powers of ten, as disks and networks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < THOUSAND:
            return f"{size:.3g} {unit}"
        size /= THOUSAND
    return f"{size:,.3g} TB"


def say_moment(moment: datetime | float | None) -> str:
    """2026-01-31 17:05 UTC; seconds since the epoch are taken too."""
    if moment is None:
        return MISSING
    if not isinstance(moment, datetime):
        try:
            moment = datetime.fromtimestamp(moment, UTC)
        except (OverflowError, ValueError, OSError):
            return MISSING
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (" UTC" if moment.tzinfo else "")


def say_metrics(metrics: Mapping[str, float | None]) -> str:
    """Every metric on one line: valid.accuracy 0.9722, valid.loss 0.0713."""
    return ", ".join(f"{name} {say_number(value)}" for name, value in metrics.items())
