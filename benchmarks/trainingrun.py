"""Trains with Trainshed: a TrainingRun file and the command line, as users do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.processes import PYTHON, seconds_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

# What the console script `trainshed` holds.
COMMAND = [PYTHON, "-c", "from trainshed.cli.main import main; main()"]


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        seconds: from the start of the process to its end.
        result: its result.json.
        events: its events.
    """

    seconds: float
    result: Mapping[str, JsonValue]
    events: list[dict[str, JsonValue]]

    def spent(self, bucket: str) -> float:
        """Return the seconds of a bucket of the run's time."""
        seconds = self.result["seconds"]
        assert isinstance(seconds, dict)
        return float(str(seconds[bucket]))


def train(folder: Path, spec: Mapping[str, JsonValue]) -> Run:
    """Run a TrainingRun with this spec; its file and all that it leaves lie in `folder`."""
    document = {
        "apiVersion": "trainshed.dev/v1alpha1",
        "kind": "TrainingRun",
        "metadata": {"name": "benchmark"},
        "spec": spec,
    }
    file = folder / "trainingrun.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    # Threads are for the run itself to set.
    home = {"TRAINSHED_HOME": str(folder)}
    seconds = seconds_of([*COMMAND, "run", str(file)], environment=home)
    left = folder / "runs" / "local" / "benchmark"
    lines = (left / "attempts" / "1" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    result = json.loads((left / "result.json").read_text(encoding="utf-8"))
    return Run(seconds, result, [json.loads(line) for line in lines])


def dataset(
    data: Path, *, cache: str = "auto", shuffle: Mapping[str, JsonValue] | None = None
) -> JsonValue:
    """Return the `spec.data` of one dataset `train`."""
    read: JsonValue = {"format": "parquet", "path": str(data)}
    given: JsonValue = dict(shuffle or {"mode": "none"})
    train_set: JsonValue = {"read": read, "cache": cache, "shuffle": given}
    return {"cpus": 1, "datasets": {"train": train_set}}
