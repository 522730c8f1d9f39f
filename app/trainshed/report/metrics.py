"""Find what each metric came to, and which value of which metric a reader asks for first. Pure."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trainshed.display.formatting import say_place
from trainshed.report.load import RunData
from trainshed_api.progress import Evaluated, Progress

Mode = Literal["min", "max"]
# Words of names, such as eval_loss, valid.loss or val_mae, and ends of words, such as logloss.
LOW_IS_GOOD = {
    *("bpb", "brier", "cer", "deviance", "ece", "eer", "err", "fid", "kl", "mae", "mape", "mse"),
    *("nll", "perplexity", "ppl", "rmse", "rmsle", "smape", "wer"),
}
HIGH_IS_GOOD = {
    *("acc", "ap", "auc", "aucpr", "auroc", "bleu", "correct", "dice", "f1", "iou", "kappa"),
    *("map", "mcc", "miou", "mrr", "ndcg", "precision", "psnr", "r2", "recall", "reward"),
    *("rouge", "sensitivity", "specificity", "ssim"),
}
ENDS_LOW, ENDS_HIGH = ("loss", "error", "nloglik"), ("accuracy",)
HELD_OUT = {"dev", "eval", "evaluation", "test", "val", "valid", "validation"}
# Which metric leads the page where the run does not say: the first of these that was reported.
ASKED_FIRST = ("accuracy", "acc", "f1", "auc", "loss")


@dataclass(frozen=True)
class BestMetric:
    """The key figure of the run and where it was reached."""

    name: str
    value: float
    where: str
    step: int | None


def list_metrics(run: RunData) -> Iterator[tuple[str, *tuple[float | None, ...]]]:
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
        yield name, last, min(finite, default=last), max(finite, default=last)


def find_best(run: RunData) -> BestMetric | None:
    """Return the best value of the metric that the run is judged by.

    None where nothing was reported, or nothing of which it is known whether low or high is good.
    """
    judged = _judged_by(run)
    if judged is None:
        return None
    name, mode = judged
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
    where = say_place(event.epoch, event.step, run.step_name)
    return BestMetric(name, value, where, event.step)


def direction_of(name: str) -> Mode | None:
    """Return whether low or high values of a metric are good, by its name; None: nobody knows."""
    for word in reversed(_words(name)):
        if word in LOW_IS_GOOD or word.endswith(ENDS_LOW):
            return "min"
        if word in HIGH_IS_GOOD or word.endswith(ENDS_HIGH):
            return "max"
    return None


def _judged_by(run: RunData) -> tuple[str, Mode] | None:
    checkpoint = run.provenance.spec.get("checkpoint")
    best = checkpoint.get("best") if isinstance(checkpoint, dict) else None
    if isinstance(best, dict) and isinstance(best.get("metric"), str):
        return str(best["metric"]), "min" if best.get("mode") == "min" else "max"
    evaluated = [n for e in _measured(run) if isinstance(e, Evaluated) for n in e.metrics]
    names = dict.fromkeys(evaluated or [n for e in _measured(run) for n in e.metrics])
    known = [(name, mode) for name in names if (mode := direction_of(name))]
    return min(known, key=lambda pair: _how_soon_asked(pair[0]), default=None)


def _how_soon_asked(name: str) -> tuple[bool, int]:
    words = _words(name)
    places = [place for place, word in enumerate(ASKED_FIRST) if word in words]
    return not HELD_OUT.intersection(words), min(places, default=len(ASKED_FIRST))


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case: valid.topAcc_5 has valid, top, acc and 5."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])\d*|\d+", name)]


def _measured(run: RunData) -> Iterator[Progress | Evaluated]:
    for attempt in run.attempts:
        for event in attempt.events:
            if isinstance(event, Progress | Evaluated):
                yield event
