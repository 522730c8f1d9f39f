"""Writes checkpoints of a given size; measures `ray.train.report` with and without them."""

import json
import time
from pathlib import Path

import ray.train
from ray.train import Checkpoint
from torch.nn import functional as F

import trainshed
from benchmarks.plain.ballast import Ballast
from benchmarks.plain.model import build_optimizer


def train(config: dict[str, object]) -> None:
    """Make steps of `config["pause"]` seconds; `checkpoint.everySteps` says when one is written."""
    megabytes, pause, reports = config["megabytes"], config["pause"], config["reports"]
    assert isinstance(megabytes, int)
    assert isinstance(pause, float)
    assert isinstance(reports, int)
    run = trainshed.current()
    clock = ReportClock()
    model = Ballast(megabytes)
    run.track(model, build_optimizer(model.head))
    for _ in run.epochs():
        for batch in run.batches("train"):
            run.backward_step(F.cross_entropy(model(batch["x"]), batch["y"]))
            time.sleep(pause)
    for number in range(reports):
        ray.train.report({"number": number})
    found = {"checkpoints": clock.checkpoints, "metrics": clock.metrics}
    Path(str(config["out"])).write_text(json.dumps(found), encoding="utf-8")


class ReportClock:
    """Takes the time of every call of `ray.train.report` in this process, whoever makes it."""

    def __init__(self) -> None:
        self.checkpoints: list[float] = []
        self.metrics: list[float] = []
        self._report = ray.train.report
        ray.train.report = self._timed

    def _timed(
        self, metrics: dict[str, object], checkpoint: Checkpoint | None = None, **others: object
    ) -> None:
        began = time.perf_counter()
        self._report(metrics, checkpoint=checkpoint, **others)
        spent = self.checkpoints if checkpoint else self.metrics
        spent.append(time.perf_counter() - began)
