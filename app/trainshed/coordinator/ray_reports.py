"""What a user's own `ray.train.report` says, as events of the run. Pure."""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import TYPE_CHECKING

from trainshed.coordinator.run_state import Reported
from trainshed_api.errors import Problem
from trainshed_api.progress import LARGEST_COUNT, CheckpointSaved, Evaluated, Event, Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trainshed_api.v1alpha1 import BestSpec

EPOCH, STEP, LOSS = "epoch", "step", "loss"
# A metric whose name begins so was measured on rows that are not trained on.
_HELD_OUT = re.compile(r"(val|valid|validation|eval|evaluation|test)([._/ -]|$)")


def reported(metrics: Mapping[str, object], checkpoint: str | None) -> Reported:
    """Return what one report says.

    Args:
        metrics: as the user gave them to Ray; what is no number is left out.
        checkpoint: folder of the checkpoint that came with them.
    """
    numbers = {name: n for name, value in metrics.items() if (n := _number(value)) is not None}
    epoch, step = _count(numbers.pop(EPOCH, None)), _count(numbers.pop(STEP, None))
    kept = (checkpoint, epoch, step) if checkpoint else None
    return Reported(epoch, step, numbers, kept)


def events_of(report: Reported, now: float) -> list[Event]:
    """Return the events that a report amounts to."""
    held_out: dict[str, float | None] = {}
    others: dict[str, float | None] = {}
    for name, value in report.metrics.items():
        (held_out if _HELD_OUT.match(name) else others)[name] = value
    epoch, step = report.epoch, report.step
    loss = others.get(LOSS)
    events: list[Event] = []
    if others or epoch is not None or step is not None:
        events.append(Progress(time=now, epoch=epoch, step=step, loss=loss, metrics=others))
    if held_out:
        events.append(Evaluated(time=now, epoch=epoch, step=step, metrics=held_out))
    if report.checkpoint:
        path = report.checkpoint[0]
        events.append(CheckpointSaved(time=now, epoch=epoch, step=step, path=path))
    return events


def told_by(event: Event) -> Reported:
    """Return what an event says of how far a run came; its epoch may be one that is under way."""
    match event:
        case Progress() | Evaluated():
            numbers = {name: n for name, n in event.metrics.items() if n is not None}
            return Reported(step=event.step, metrics=numbers)
        case CheckpointSaved():
            return Reported(checkpoint=(event.path, event.epoch, event.step))
    return Reported()


def missing_best(best: BestSpec, metrics: Iterable[str]) -> Problem | None:
    """Return what is wrong when nobody reports the metric that ranks checkpoints."""
    names = sorted(metrics)
    if best.metric in names:
        return None
    expected = f"a reported metric: {', '.join(names) or 'none'}"
    return Problem("spec.checkpoint.best.metric", best.metric, expected)


def _number(value: object) -> float | None:
    """Return a number, also from an array of one element; None for all else."""
    if getattr(value, "size", None) == 1 and hasattr(value, "item"):
        value = value.item()
    return float(value) if isinstance(value, Real) else None


def _count(number: float | None) -> int | None:
    if number is None or not math.isfinite(number) or abs(number) > LARGEST_COUNT:
        return None
    return int(number)
