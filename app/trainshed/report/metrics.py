"""Find what each metric came to, and which value of which metric a reader asks for first. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trainshed.display.wording import say_number, say_place
from trainshed.report.read import RunFolder
from trainshed_api.progress import Evaluated, Progress

Mode = Literal["min", "max"]
# Last parts of names whose small values are the good ones.
SMALL_IS_GOOD = ("loss", "error", "err", "mae", "mse", "rmse", "perplexity", "ppl")
# Which metric leads the page where the run does not say: the first of these that was evaluated.
ASKED_FIRST = ("accuracy", "acc", "f1", "auc", "loss")


@dataclass(frozen=True)
class MetricRow:
    """One metric in the table."""

    name: str
    last: str
    lowest: str
    highest: str


@dataclass(frozen=True)
class BestMetric:
    """The key figure of the run and where it was reached."""

    name: str
    value: float
    where: str
    step: int | None


def list_metrics(run: RunFolder) -> Iterator[MetricRow]:
    """Every metric that was reported or is in the result, evaluated ones first."""
    values: dict[str, list[float]] = {}
    for event in _measured(run):
        for name, value in event.metrics.items():
            values.setdefault(name, []).extend([] if value is None else [value])
    final = dict(run.result.metrics) if run.result else {}
    for name in sorted({*values, *final}, key=lambda name: ("." not in name, name)):
        seen = values.get(name, [])
        finite = [value for value in seen if math.isfinite(value)]
        last = final.get(name, seen[-1] if seen else None)
        yield MetricRow(
            name=name,
            last=say_number(last),
            lowest=say_number(min(finite, default=last)),
            highest=say_number(max(finite, default=last)),
        )


def find_best(run: RunFolder) -> BestMetric | None:
    """The best value of the metric that the run is judged by; None where nothing was reported."""
    name, mode = _judged_by(run)
    if name is None:
        return None
    evaluated = [e for e in _measured(run) if isinstance(e, Evaluated) and name in e.metrics]
    events: Sequence[Progress | Evaluated] = evaluated or [
        event for event in _measured(run) if name in event.metrics
    ]
    scored = [
        (value, event)
        for event in events
        if (value := event.metrics[name]) is not None and math.isfinite(value)
    ]
    if not scored:
        return None
    pick = max if mode == "max" else min
    value, event = pick(scored, key=lambda pair: pair[0])
    return BestMetric(name, value, say_place(event.epoch, event.step), event.step)


def _judged_by(run: RunFolder) -> tuple[str | None, Mode]:
    checkpoint = run.provenance.spec.get("checkpoint")
    best = checkpoint.get("best") if isinstance(checkpoint, dict) else None
    if isinstance(best, dict) and isinstance(best.get("metric"), str):
        return str(best["metric"]), "min" if best.get("mode") == "min" else "max"
    evaluated = [n for e in _measured(run) if isinstance(e, Evaluated) for n in e.metrics]
    names = evaluated or [n for e in _measured(run) for n in e.metrics]
    if not names:
        return None, "max"
    name = min(dict.fromkeys(names), key=_how_soon_asked)
    return name, "min" if _leaf(name) in SMALL_IS_GOOD else "max"


def _how_soon_asked(name: str) -> int:
    leaf = _leaf(name)
    return ASKED_FIRST.index(leaf) if leaf in ASKED_FIRST else len(ASKED_FIRST)


def _leaf(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _measured(run: RunFolder) -> Iterator[Progress | Evaluated]:
    for attempt in run.attempts:
        for event in attempt.events:
            if isinstance(event, Progress | Evaluated):
                yield event
