"""Trains with Trainshed: a TrainingRun file and the command line, as users do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.processes import PYTHON, time_command

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

# The entry point of the console script `trainshed`.
COMMAND = [PYTHON, "-c", "from trainshed.cli.main import main; main()"]


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        seconds: from the start of the process to its end.
        result: contents of result.json.
        events: lines of metrics.jsonl.
    """

    seconds: float
    result: Mapping[str, Any]
    events: list[dict[str, Any]]


def document(spec: Mapping[str, JsonValue], name: str = "benchmark") -> dict[str, JsonValue]:
    """Return a TrainingRun with this spec."""
    return {
        "apiVersion": "trainshed.dev/v1alpha1",
        "kind": "TrainingRun",
        "metadata": {"name": name},
        "spec": dict(spec),
    }


def train(folder: Path, spec: Mapping[str, JsonValue]) -> Run:
    """Train a TrainingRun with this spec; `folder` takes its file and everything that it writes."""
    file = folder / "trainingrun.yaml"
    file.write_text(json.dumps(document(spec)), encoding="utf-8")  # JSON is YAML
    home = {"TRAINSHED_HOME": str(folder)}
    seconds = time_command([*COMMAND, "run", str(file)], environment=home)
    written = folder / "runs" / "local" / "benchmark"
    lines = (written / "attempts" / "1" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    result = json.loads((written / "result.json").read_text(encoding="utf-8"))
    return Run(seconds, result, [json.loads(line) for line in lines])


def train_epochs(
    folder: Path, program: str, config: Mapping[str, JsonValue], **spec: JsonValue
) -> list[dict[str, float]]:
    """Train on one worker without checkpoints; return the epoch times that the program writes.

    Args:
        folder: empty.
        program: module and function that write the times to the file `config["out"]`.
        config: of the program, without `out`.
        spec: other fields of the spec.
    """
    out = folder / "epochs.json"
    fixed: dict[str, JsonValue] = {
        "train": program,
        "config": {**config, "out": str(out)},
        "workers": {"count": 1, "resources": {"cpu": 1}},
        "checkpoint": {"everyEpochs": 0},
    }
    train(folder, {**fixed, **spec})
    epochs: list[dict[str, float]] = json.loads(out.read_text(encoding="utf-8"))
    return epochs


def dataset(
    data: Path, *, cache: str = "auto", shuffle: Mapping[str, JsonValue] | None = None
) -> JsonValue:
    """Return the `spec.data` of one dataset `train`, which is not shuffled by default."""
    return {
        "cpus": 1,
        "datasets": {
            "train": {
                "read": {"format": "parquet", "path": str(data)},
                "cache": cache,
                "shuffle": dict(shuffle or {"mode": "none"}),
            }
        },
    }
