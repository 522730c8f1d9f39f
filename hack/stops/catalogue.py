"""The programs whose runs are stopped: samples of the repository, and functions of `programs`."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import JsonValue

from hack.stops.draw import EPOCHS, PHASES
from hack.stops.judge import Promise

ROOT = Path(__file__).parents[2]
ROWS, BATCH = 72, 12
DIGITS, DIGITS_BATCH = 1437, 240
# How long a soft stop may take: what the spec allows, and what a busy machine needs to end Ray.
GRACE_SECONDS, MARGIN_SECONDS = 60, 60

Spec = dict[str, JsonValue]


@dataclass(frozen=True)
class Program:
    """How a program is run, and what it is promised.

    Args:
        lacks: phases that it never reaches.
        needs: the packages that it imports.
    """

    name: str
    spec: Spec
    promise: Promise
    lacks: Sequence[str] = ()
    needs: Sequence[str] = field(default=())

    @property
    def phases(self) -> list[str]:
        """Return the phases that it reaches."""
        return [phase for phase in PHASES if phase not in self.lacks]

    @property
    def missing(self) -> list[str]:
        """Return the packages that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


def make_programs() -> list[Program]:
    """Return all programs."""
    no_evaluation = ["evaluation"]
    # No row of theirs goes through a transform, nor through an evaluation of ours.
    of_own_rows = ["planning", "waiting-for-rows", "evaluation"]
    # XGBoost reads all rows first, has no epochs, and its state is taken where nobody sees it.
    boosted = ["waiting-for-rows", "checkpoint", "epoch-end"]
    return [
        _sample("digits", "trainingrun.yaml"),
        _adopted(),
        _sample("tabular", "samples/tabular.yaml"),
        _sample("collate", "samples/collate.yaml"),
        _sample("boosted-trees", "samples/boosted-trees.yaml", lacks=[*boosted, "evaluation"]),
        _own("own-loop", "own_loop", accumulate=2),
        _own("compile", "own_loop", {"compile": True}),
        _own("early-return", "early_return", lacks=no_evaluation, rows={}, epochs=2 * EPOCHS),
        _own("moving-average", "moving_average"),
        _own("two-models", "two_models", lacks=no_evaluation),
        _own("zip", "zipped", lacks=no_evaluation, rows={"train": ROWS, "other": ROWS}),
        _own("xgboost", "boost", lacks=boosted, rows={}, framework="xgboost", needs=["xgboost"]),
        _plain("ray-data", "programs:own_shard", lacks=no_evaluation),
        _plain("own-loader", "programs:own_loader", {"rows": ROWS}, lacks=of_own_rows),
        *(
            _plain(name, f"frameworks:by_{name}", {"rows": ROWS}, lacks=lacks, needs=[name])
            for name, lacks in {
                "accelerate": of_own_rows,
                # When these report is not seen; what is saved by transformers neither.
                "lightning": [*of_own_rows, "report"],
                "transformers": [*of_own_rows, "report", "checkpoint"],
            }.items()
        ),
    ]


def _sample(name: str, file: str, lacks: Sequence[str] = ()) -> Program:
    """Return a file of manifests/, on fewer and larger batches; everything else is as it says."""
    document = yaml.safe_load((ROOT / "manifests" / file).read_text(encoding="utf-8"))
    spec: Spec = document["spec"]
    spec = _observed(spec, str(spec["train"]), spec["config"])
    is_boosted = spec.get("framework") == "xgboost"
    if not is_boosted:
        spec |= {"epochs": EPOCHS, "batchSize": DIGITS_BATCH}
    rows = {} if is_boosted else {"train": DIGITS}
    needs = ["xgboost"] if is_boosted else []
    return Program(name, spec, _promise(rows, keeps_steps=True), lacks, needs)


def _adopted() -> Program:
    """Return README's own function on the digits, which reads a name of its loop after it."""
    document = yaml.safe_load((ROOT / "manifests" / "trainingrun.yaml").read_text(encoding="utf-8"))
    spec: Spec = document["spec"]
    spec = _observed(spec, "examples.adopt.after:train", {"learningRate": 0.001})
    own: Spec = {"epochs": EPOCHS, "batchSize": DIGITS_BATCH, "checkpoint": {"everyEpochs": 1}}
    promise = _promise({"train": DIGITS}, keeps_steps=True)
    return Program("adopted", spec | own, promise, ["evaluation"])


def _own(  # noqa: PLR0913 - each says how it differs
    name: str,
    function: str,
    config: Spec | None = None,
    *,
    lacks: Sequence[str] = (),
    needs: Sequence[str] = (),
    rows: Mapping[str, int] | None = None,
    **changes: JsonValue,
) -> Program:
    """Return a function that uses `trainshed.current()`, or XGBoost's."""
    promised = {"train": ROWS} if rows is None else rows
    spec = _own_spec(f"programs:{function}", config, changes)
    return Program(name, spec, _promise(promised, keeps_steps=True), lacks, needs)


def _plain(
    name: str,
    function: str,
    config: Spec | None = None,
    *,
    lacks: Sequence[str],
    needs: Sequence[str] = (),
) -> Program:
    """Return a function of Ray Train's own shape: it goes on after the last epoch it reported."""
    spec = _own_spec(function, config, {"checkpoint": {"keep": 2}})
    if "planning" in lacks:
        del spec["data"]
    return Program(name, spec, _promise({"train": ROWS}, keeps_steps=False), lacks, needs)


def _own_spec(function: str, config: Spec | None, changes: Spec) -> Spec:
    read: Spec = {"format": "parquet", "path": "rows"}
    spec: Spec = {
        "epochs": EPOCHS,
        "batchSize": BATCH,
        "checkpoint": {"everyEpochs": 1, "everySteps": 4},
        "data": {
            "cpus": 1,
            "datasets": {
                "train": {"read": read, "shuffle": {"mode": "local", "bufferSize": 30}},
                "valid": {"read": read},
                "other": {"read": read, "shuffle": {"mode": "global"}},
            },
        },
    }
    if changes.get("framework") == "xgboost":
        del spec["epochs"], spec["batchSize"]
        spec["data"] = {"cpus": 1, "datasets": {"train": {"read": read}}}
    return _observed(spec | changes, f"hack.stops.{function}", config or {})


def _observed(spec: Spec, function: str, config: JsonValue) -> Spec:
    """Return a spec whose function, and the rows that it trains on, are observed."""
    spec = spec | {
        "train": "hack.stops.observed:train",
        "config": {"function": function, "config": config},
        "workers": {"count": 2, "resources": {"cpu": "500m"}},
        "seed": 3,
        "reproducible": True,
        "gracePeriodSeconds": GRACE_SECONDS,
    }
    data = spec["data"]
    assert isinstance(data, dict)
    assert isinstance(data["datasets"], dict)
    train = data["datasets"]["train"]
    assert isinstance(train, dict)
    transforms = train.get("transforms", [])
    feed = train.get("feed", {})
    assert isinstance(transforms, list)
    assert isinstance(feed, dict)
    held: JsonValue = {"use": "hack.stops.marks:hold_row", "kind": "rows"}
    # Without a cache later epochs read again: rows can be waited for in the middle of training.
    train |= {"transforms": [held, *transforms], "cache": "none"}
    if spec.get("framework") != "xgboost":
        train["feed"] = {**feed, "lastBatch": "keep"}
    return spec


def _promise(rows: Mapping[str, int], *, keeps_steps: bool) -> Promise:
    return Promise(rows, keeps_steps, GRACE_SECONDS + MARGIN_SECONDS)
