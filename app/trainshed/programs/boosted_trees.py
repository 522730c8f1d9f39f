"""Train boosted trees on rows of a table: classification, regression or ranking, by XGBoost.

Datasets: `train`, and any others for what is scored after each round. Features are any columns of
numbers or texts; texts are categories. Ranked rows of one group have to lie together.
"""

from __future__ import annotations

import importlib.util
import json
import re
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field, JsonValue, model_validator

import trainshed.boosting
from trainshed.programs.options import Options, fault, pick
from trainshed_api.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from trainshed.boosting.boosting_run import BoostingRun
    from trainshed.boosting.matrix import Matrix
    from trainshed_api.errors import SpecError

# Parameters that XGBoost takes under two names, of which its configuration shows one.
_OTHER_NAMES = frozenset(
    [
        "eta",
        "gamma",
        "lambda",
        "alpha",
        "nthread",
        "n_jobs",
        "objective",
        "eval_metric",
        "disable_default_eval_metric",
        "base_score",
        "booster",
        "num_class",
        "verbosity",
    ]
)
# These name features, which are known where the rows are.
_OF_FEATURES = ("monotone_constraints", "interaction_constraints")
# What only the run may set, and which of its fields does.
_OURS = {"seed": "spec.seed", "random_state": "spec.seed", "device": "spec.workers.resources.gpu"}
# `[12:00:00] /src/learner.cc:806: Check failed: a == b (1 vs. 2) : `, of which the rest says what.
_PLACE = re.compile(r"^\[[\d:]+\] \S+: (Check failed: .*? : )?")
_BY_ROUNDS = ("gbtree", "dart")
_OF_CLASSES = ("binary:", "multi:")


class BoostedTreesOptions(Options):
    """Options of the boosted trees."""

    params: dict[str, JsonValue] = Field(
        default={},
        description="Parameters by XGBoost's names, such as objective and eta.",
    )
    num_boost_round: int = Field(default=100, ge=1, description="Boosting rounds of the whole run.")
    early_stopping_rounds: int = Field(
        default=0,
        ge=0,
        description="Stop after this many rounds without improvement; 0 turns it off.",
    )
    early_stopping_dataset: str = Field(
        default="valid", description="Dataset that early stopping watches."
    )
    early_stopping_metric: str = Field(
        default="",
        description="Metric that early stopping watches; empty means the last eval_metric.",
    )
    label: str = Field(default="label", description="Column to predict; text values are classes.")
    features: list[str] = Field(
        default=[], description="Input columns; empty means all columns with no other use."
    )
    categorical: list[str] = Field(
        default=[], description="Integer features, from 0, that are categories."
    )
    weight: str = Field(
        default="", description="Column with the weight of each row; empty means equal weights."
    )
    group: str = Field(default="", description="Column that identifies the groups of a ranking.")

    @model_validator(mode="after")
    def _ranking_has_groups(self) -> Self:
        if self.objective.startswith("rank:") and not self.group:
            raise ValueError(f"{self.objective} needs group, the column of what is ranked together")
        return self

    @model_validator(mode="after")
    def _a_column_has_one_role(self) -> Self:
        roles = [self.label, *self.features, *filter(None, [self.weight, self.group])]
        if twice := sorted({name for name in roles if roles.count(name) > 1}):
            raise ValueError(
                f"{twice[0]} is named twice: a column is label, weight, group or one of features"
            )
        named = set(self.categorical)
        others = named - set(self.features or named) | named & {self.label, self.weight, self.group}
        if others:
            raise ValueError(f"{min(others)} is categorical and none of features")
        return self

    @property
    def objective(self) -> str:
        """What is minimized."""
        return str(self.params.get("objective", "reg:squarederror"))

    @property
    def num_class(self) -> int | None:
        """Number of classes, where it is said."""
        given = self.params.get("num_class")
        return int(given) if isinstance(given, (int, float, str)) else None


def train(config: dict[str, object]) -> None:
    """Grow trees on `config["features"]` to predict `config["label"]`."""
    # XGBoost is imported where it is needed: an image may have none.
    from trainshed.boosting.boosting_run import DEFAULT_BINS
    from trainshed.boosting.early_stopping import EarlyStopping
    from trainshed.boosting.matrix_columns import MatrixColumns

    options = BoostedTreesOptions.read(config)
    run = trainshed.boosting.current()
    if options.early_stopping_rounds and options.early_stopping_dataset not in run.datasets:
        expected = f"a dataset of the run: {', '.join(run.datasets)}"
        raise fault("earlyStoppingDataset", options.early_stopping_dataset, expected)
    columns = MatrixColumns(
        options.label,
        tuple(options.features),
        tuple(options.categorical),
        options.weight or None,
        options.group or None,
    )
    max_bin = int(str(options.params.get("max_bin", DEFAULT_BINS)))
    matrix = run.matrix("train", columns, max_bin=max_bin)
    _check_classes(options, matrix)
    others = {
        name: run.matrix(name, columns, like=matrix, max_bin=max_bin)
        for name in run.datasets
        if name != "train"
    }
    stopping = EarlyStopping(
        options.early_stopping_rounds,
        options.early_stopping_dataset,
        options.early_stopping_metric or None,
    )
    booster = run.boost(
        options.params,
        matrix,
        options.num_boost_round,
        scored={"train": matrix, **others},
        early_stopping=stopping if options.early_stopping_rounds else None,
    )
    gains = booster.get_score(importance_type="gain")
    shares = {name: float(np.sum(gain)) for name, gain in gains.items()}
    run.show_importance("gain of each feature", shares)
    if options.objective.startswith(_OF_CLASSES) and "valid" in others:
        _show_confusion(run, options, others["valid"])


def check_config(config: dict[str, object]) -> None:
    """Refuse a config that `train` would refuse.

    Raises:
        SpecError: naming `spec.config.<name>`.
    """
    options = BoostedTreesOptions.read(config)
    for name, field in _OURS.items():
        if name in options.params:
            raise fault(f"params.{name}", options.params[name], f"no value: {field} sets it")
    if "max_bin" in options.params:
        bins = options.params["max_bin"]
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 2:  # noqa: PLR2004 - sides
            raise fault("params.max_bin", bins, "a whole number of at least 2")
    for name, right in (
        ("tree_method", ("hist",)),
        ("booster", _BY_ROUNDS),
        ("process_type", ("default",)),
    ):
        if options.params.get(name, right[0]) not in right:
            raise fault(f"params.{name}", options.params[name], " or ".join(right))
    if importlib.util.find_spec("xgboost") is not None:
        _ask_xgboost(options.params)


def check_rows(config: dict[str, object], columns: Mapping[str, NDArray[np.generic]]) -> None:
    """Refuse first rows that `train` would refuse.

    Raises:
        ValueError: naming the column.
    """
    options = BoostedTreesOptions.read(config)
    for name in filter(None, [options.label, *options.features, options.weight, options.group]):
        pick(columns, name)


def _check_classes(options: BoostedTreesOptions, matrix: Matrix) -> None:
    """Refuse an objective that takes the texts of a label for numbers.

    Raises:
        SpecError: naming the parameter.
    """
    texts = matrix.categories.by_column.get(options.label)
    if texts is None:
        return
    known = f"the label {options.label} has the classes {', '.join(texts)}"
    if not options.objective.startswith(_OF_CLASSES):
        expected = f"one of binary: or multi: ({known})"
        raise fault("params.objective", options.objective, expected)
    if options.objective.startswith("binary:"):
        if len(texts) > 2:  # noqa: PLR2004 - as its name says
            raise fault("params.objective", options.objective, f"one of multi: ({known})")
    elif options.num_class != len(texts):
        raise fault("params.num_class", options.params.get("num_class"), f"{len(texts)} ({known})")


def _ask_xgboost(params: Mapping[str, JsonValue]) -> None:
    """Let XGBoost itself refuse a value, and refuse a name that it would only warn of."""
    import xgboost

    asked = {name: value for name, value in params.items() if name not in _OF_FEATURES}
    try:
        # It wants to know of one feature at least before it looks at anything.
        rows = xgboost.DMatrix(np.zeros((2, 1)), label=np.asarray([0, 1]))
        with xgboost.config_context(verbosity=0):
            booster = xgboost.Booster({**asked, "nthread": 1}, [rows])
            known = _OTHER_NAMES | set(_names(json.loads(booster.save_config())))
    except (xgboost.core.XGBoostError, TypeError, ValueError) as error:
        raise _refused(params, str(error)) from None
    for name in asked:
        if name not in known:
            near = nearest(name, sorted(known))
            hint = f'; did you mean "{near}"?' if near else ""
            raise fault(f"params.{name}", params[name], f"a parameter that XGBoost has{hint}")


def _refused(params: Mapping[str, JsonValue], said: str) -> SpecError:
    """Return XGBoost's message without its C++ location and stack."""
    words = _PLACE.sub("", said.strip().partition("\n")[0])
    return fault("params", dict(params), f"parameters that XGBoost takes ({words})")


def _names(config: object) -> Iterator[str]:
    """Yield the names of all parameters in XGBoost's configuration."""
    if isinstance(config, dict):
        for name, value in config.items():
            yield name
            yield from _names(value)
    elif isinstance(config, list):
        for value in config:
            yield from _names(value)


def _show_confusion(run: BoostingRun, options: BoostedTreesOptions, valid: Matrix) -> None:
    booster = run.booster
    assert booster is not None
    predicted = np.asarray(booster.predict(valid.data, output_margin=True))
    taken_for = (
        (predicted > 0).astype(np.int64) if predicted.ndim == 1 else predicted.argmax(axis=1)
    )
    labels = np.asarray(valid.data.get_label()).astype(np.int64)
    classes = valid.categories.by_column.get(options.label)
    if labels.shape != taken_for.shape:  # several labels a row
        return
    num_classes = max(2, options.num_class or len(classes or ()))
    counts: NDArray[np.int64] = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(counts, (labels, taken_for), 1)
    run.sum_over_ranks(counts)
    run.show_confusion("rows of valid", counts, classes)
