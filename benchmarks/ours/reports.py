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


def train(config: dict[str, float | str]) -> None:
    """Train with `config["pause"]` seconds a step, then report metrics only."""
    run = trainshed.current()
    clock = ReportClock()
    model = Ballast(int(config["megabytes"]))
    run.track(model, build_optimizer(model.head))
    for _ in run.epochs():
        for batch in run.batches("train"):
            run.backward_step(F.cross_entropy(model(batch["x"]), batch["y"]))
            time.sleep(float(config["pause"]))
    for number in range(int(config["reports"])):
        ray.train.report({"number": number})
    seconds = {"checkpoints": clock.checkpoints, "metrics": clock.metrics}
    Path(str(config["out"])).write_text(json.dumps(seconds), encoding="utf-8")


class ReportClock:
    """Measures every call of `ray.train.report` in this process, also those of Trainshed."""

    def __init__(self) -> None:
        self.checkpoints: list[float] = []
        self.metrics: list[float] = []
        self._report = ray.train.report
        ray.train.report = self._timed

    def _timed(
        self, metrics: dict[str, object], checkpoint: Checkpoint | None = None, **others: object
    ) -> None:
        started = time.perf_counter()
        self._report(metrics, checkpoint=checkpoint, **others)
        seconds = self.checkpoints if checkpoint else self.metrics
        seconds.append(time.perf_counter() - started)
