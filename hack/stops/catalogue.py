"""The programs whose runs are stopped: samples of the repository, and functions of `programs`."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import yaml
from pydantic import JsonValue

from hack.stops.draw import EPOCHS, PHASES
from hack.stops.judge import GRACE_SECONDS

ROOT = Path(__file__).parents[2]
ROWS, BATCH = 72, 12
DIGITS_BATCH = 240
IN_DIGITS, IN_ROWS = {"train": 1437}, {"train": ROWS}
IN_BOTH = {"train": ROWS, "other": ROWS}
NO_EVALUATION = ("evaluation",)
# XGBoost reads all rows first, has no epochs, and saves where no function sees it.
NOT_OF_XGBOOST = ("waiting-for-rows", "checkpoint", "epoch-end")
# Rows of the function's own pass no transform and no evaluation of Trainshed.
NOT_OF_OWN_ROWS = ("planning", "waiting-for-rows", "evaluation")

Spec = dict[str, JsonValue]
READ: Spec = {"format": "parquet", "path": "rows"}


@dataclass(frozen=True)
class Program:
    """How a program is run, and what it is promised beyond that no stop makes it fail.

    Args:
        rows: in each epoch, by dataset; empty where a step has no rows or an epoch is cut.
        lacks: phases that it never reaches.
        needs: the packages that it imports.
        keeps_steps: whether a soft stop writes a checkpoint, so that no step is repeated.
    """

    name: str
    spec: Spec
    rows: Mapping[str, int]
    lacks: Sequence[str] = ()
    needs: Sequence[str] = ("torch",)
    keeps_steps: bool = True

    @property
    def phases(self) -> list[str]:
        """Return the phases that it reaches."""
        return [phase for phase in PHASES if phase not in self.lacks]

    @property
    def is_installed(self) -> bool:
        """Return whether the packages that it imports are installed."""
        return all(importlib.util.find_spec(package) for package in self.needs)


def make_programs() -> list[Program]:
    """Return all programs; the function of each, and the rows that it trains on, are observed."""
    unshuffled: JsonValue = {"cpus": 1, "datasets": {"train": {"read": READ}}}
    adopted: Spec = {
        "train": "examples.adopt.after:train",
        "config": {"learningRate": 0.001},
        "checkpoint": {"everyEpochs": 1},
    }
    boosted = (*NO_EVALUATION, *NOT_OF_XGBOOST)
    programs = [
        Program("digits", _sample(), IN_DIGITS),
        Program("adopted", _sample() | adopted, IN_DIGITS, NO_EVALUATION),
        Program("tabular", _sample("samples/tabular.yaml"), IN_DIGITS),
        Program("collate", _sample("samples/collate.yaml"), IN_DIGITS),
        Program("boosted-trees", _sample("samples/boosted-trees.yaml"), {}, boosted, ("xgboost",)),
        Program("own-loop", _own("own_loop", accumulate=2), IN_ROWS),
        Program("compile", _own("own_loop", config={"compile": True}), IN_ROWS),
        Program("early-return", _own("early_return", epochs=2 * EPOCHS), {}, NO_EVALUATION),
        Program("moving-average", _own("moving_average"), IN_ROWS),
        Program("two-models", _own("two_models"), IN_ROWS, NO_EVALUATION),
        Program("zip", _own("zipped"), IN_BOTH, NO_EVALUATION),
        Program(
            "xgboost",
            _own("boost", framework="xgboost", data=unshuffled),
            {},
            NOT_OF_XGBOOST,
            ("xgboost",),
        ),
        _plain("ray-data", "programs:own_shard", NO_EVALUATION),
        _plain("own-loader", "programs:own_loader", NOT_OF_OWN_ROWS),
        _trainer("accelerate", (), ("accelerate",)),
        # When these report is not visible; neither is what transformers saves.
        _trainer("lightning", ("report",), ("lightning",)),
        _trainer("transformers", ("report", "checkpoint"), ("transformers",)),
    ]
    return [replace(program, spec=_observed(program.spec)) for program in programs]


def _sample(file: str = "trainingrun.yaml") -> Spec:
    """Return the spec of a file of manifests/, with fewer and larger batches."""
    document = yaml.safe_load((ROOT / "manifests" / file).read_text(encoding="utf-8"))
    return {**document["spec"], "epochs": EPOCHS, "batchSize": DIGITS_BATCH}


def _own(function: str, **changes: JsonValue) -> Spec:
    """Return the spec of a function of `programs`."""
    spec: Spec = {
        "train": f"hack.stops.programs:{function}",
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
    return spec | changes


def _plain(name: str, function: str, lacks: Sequence[str]) -> Program:
    """Return a function of Ray Train alone, which resumes after the last epoch it reported."""
    train = f"hack.stops.{function}"
    spec = _own("", train=train, checkpoint={"keep": 2}, config={"rows": ROWS})
    if "planning" in lacks:
        del spec["data"]
    return Program(name, spec, IN_ROWS, lacks, keeps_steps=False)


def _trainer(name: str, lacks: Sequence[str], needs: Sequence[str]) -> Program:
    """Return a function of a framework's trainer, which saves after the step of a stop."""
    plain = _plain(name, f"frameworks:by_{name}", (*NOT_OF_OWN_ROWS, *lacks))
    return replace(plain, needs=needs, keeps_steps=True)


def _observed(spec: Spec) -> Spec:
    observed = spec | {
        "train": "hack.stops.observed:train",
        "config": {"function": spec["train"], "config": spec.get("config", {})},
        "workers": {"count": 2, "resources": {"cpu": "500m"}},
        "seed": 3,
        "reproducible": True,
        "gracePeriodSeconds": GRACE_SECONDS,
    }
    is_boosted = spec.get("framework") == "xgboost"
    if is_boosted:
        del observed["epochs"], observed["batchSize"]
    if "data" in spec:
        train = cast("dict[str, dict[str, Spec]]", spec["data"])["datasets"]["train"]
        held: JsonValue = {"use": "hack.stops.marks:hold_row", "kind": "rows"}
        transforms = cast("list[JsonValue]", train.get("transforms", []))
        # Without a cache later epochs read again, so training can wait for rows at any step.
        train |= {"transforms": [held, *transforms], "cache": "none"}
        if not is_boosted:
            train["feed"] = {**cast("Spec", train.get("feed", {})), "lastBatch": "keep"}
    return observed
