"""The programs whose runs are stopped: samples of the repository, and functions of `programs`."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml
from pydantic import JsonValue

from hack.stops.draw import EPOCHS, PHASES
from hack.stops.judge import GRACE_SECONDS, Promise

ROOT = Path(__file__).parents[2]
ROWS, BATCH = 72, 12
DIGITS, DIGITS_BATCH = 1437, 240
NO_EVALUATION = ("evaluation",)
# XGBoost reads all rows first, has no epochs, and saves where no function sees it.
NOT_OF_XGBOOST = ("waiting-for-rows", "checkpoint", "epoch-end")
# Rows of the function's own pass no transform and no evaluation of Trainshed.
NOT_OF_OWN_ROWS = ("planning", "waiting-for-rows", "evaluation")

Spec = dict[str, JsonValue]
READ: Spec = {"format": "parquet", "path": "rows"}


@dataclass(frozen=True)
class Program:
    """How a program is run, and what it is promised.

    Args:
        lacks: phases that it never reaches.
        needs: the package that it imports.
    """

    name: str
    spec: Spec
    promise: Promise
    lacks: Sequence[str] = ()
    needs: str = "torch"

    @property
    def phases(self) -> list[str]:
        """Return the phases that it reaches."""
        return [phase for phase in PHASES if phase not in self.lacks]

    @property
    def is_installed(self) -> bool:
        """Return whether the package that it imports is installed."""
        return importlib.util.find_spec(self.needs) is not None


def make_programs() -> list[Program]:
    """Return all programs."""
    both = {"train": ROWS, "other": ROWS}
    unshuffled: JsonValue = {"cpus": 1, "datasets": {"train": {"read": READ}}}
    return [
        _sample("digits"),
        _sample(
            "adopted",
            lacks=NO_EVALUATION,
            train="examples.adopt.after:train",
            config={"learningRate": 0.001},
            checkpoint={"everyEpochs": 1},
        ),
        _sample("tabular", "samples/tabular.yaml"),
        _sample("collate", "samples/collate.yaml"),
        _sample("boosted-trees", "samples/boosted-trees.yaml", NO_EVALUATION),
        _own("own-loop", "own_loop", accumulate=2),
        _own("compile", "own_loop", config={"compile": True}),
        _own("early-return", "early_return", NO_EVALUATION, rows={}, epochs=2 * EPOCHS),
        _own("moving-average", "moving_average"),
        _own("two-models", "two_models", NO_EVALUATION),
        _own("zip", "zipped", NO_EVALUATION, rows=both),
        _own("xgboost", "boost", framework="xgboost", data=unshuffled),
        _plain("ray-data", "programs:own_shard", NO_EVALUATION),
        _plain("own-loader", "programs:own_loader", NOT_OF_OWN_ROWS),
        _plain("accelerate", "frameworks:by_accelerate", NOT_OF_OWN_ROWS, "accelerate"),
        # When these report is not visible; neither is what transformers saves.
        _plain("lightning", "frameworks:by_lightning", (*NOT_OF_OWN_ROWS, "report"), "lightning"),
        _plain(
            "transformers",
            "frameworks:by_transformers",
            (*NOT_OF_OWN_ROWS, "report", "checkpoint"),
            "transformers",
        ),
    ]


def _sample(
    name: str,
    file: str = "trainingrun.yaml",
    lacks: Sequence[str] = (),
    **changes: JsonValue,
) -> Program:
    """Return a file of manifests/, with fewer and larger batches."""
    document = yaml.safe_load((ROOT / "manifests" / file).read_text(encoding="utf-8"))
    spec: Spec = {"epochs": EPOCHS, "batchSize": DIGITS_BATCH}
    return _program(name, document["spec"] | spec | changes, {"train": DIGITS}, lacks)


def _own(
    name: str,
    function: str,
    lacks: Sequence[str] = (),
    rows: Mapping[str, int] | None = None,
    **changes: JsonValue,
) -> Program:
    """Return a function that uses `trainshed.current()`, or XGBoost."""
    spec = _own_spec(f"programs:{function}") | changes
    return _program(name, spec, {"train": ROWS} if rows is None else rows, lacks)


def _plain(name: str, function: str, lacks: Sequence[str], needs: str = "torch") -> Program:
    """Return a function of Ray Train alone, which resumes after the last epoch it reported."""
    spec = _own_spec(function) | {"checkpoint": {"keep": 2}, "config": {"rows": ROWS}}
    if "planning" in lacks:
        del spec["data"]
    promise = Promise({"train": ROWS}, keeps_steps=False)
    return Program(name, _observed(spec), promise, lacks, needs)


def _own_spec(function: str) -> Spec:
    return {
        "train": f"hack.stops.{function}",
        "epochs": EPOCHS,
        "batchSize": BATCH,
        "checkpoint": {"everyEpochs": 1, "everySteps": 4},
        "data": {
            "cpus": 1,
            "datasets": {
                "train": {"read": READ, "shuffle": {"mode": "local", "bufferSize": 30}},
                "valid": {"read": READ},
                "other": {"read": READ, "shuffle": {"mode": "global"}},
            },
        },
    }


def _program(name: str, spec: Spec, rows: Mapping[str, int], lacks: Sequence[str]) -> Program:
    if spec.get("framework") != "xgboost":
        return Program(name, _observed(spec), Promise(rows, keeps_steps=True), lacks)
    spec = {key: value for key, value in spec.items() if key not in ("epochs", "batchSize")}
    lacks = (*lacks, *NOT_OF_XGBOOST)
    return Program(name, _observed(spec), Promise({}, keeps_steps=True), lacks, "xgboost")


def _observed(spec: Spec) -> Spec:
    """Return a spec whose function, and the rows that it trains on, are observed."""
    spec = spec | {
        "train": "hack.stops.observed:train",
        "config": {"function": spec["train"], "config": spec.get("config", {})},
        "workers": {"count": 2, "resources": {"cpu": "500m"}},
        "seed": 3,
        "reproducible": True,
        "gracePeriodSeconds": GRACE_SECONDS,
    }
    if "data" in spec:
        data = cast("dict[str, dict[str, Spec]]", spec["data"])
        train = data["datasets"]["train"]
        held: JsonValue = {"use": "hack.stops.marks:hold_row", "kind": "rows"}
        transforms = cast("list[JsonValue]", train.get("transforms", []))
        # Without a cache later epochs read again, so training can wait for rows at any step.
        train |= {"transforms": [held, *transforms], "cache": "none"}
        if spec.get("framework") != "xgboost":
            train["feed"] = {**cast("Spec", train.get("feed", {})), "lastBatch": "keep"}
    return spec
