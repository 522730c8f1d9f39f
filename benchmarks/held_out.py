"""Scores of each framework on held-out rows: on one and two workers, and by a plain program.

The same rows, sizes and rounds or epochs on all sides, and another seed in each repeat. Needs
TensorFlow: `hack/with-packages.sh images/app/tensorflow.txt make bench NAME=held_out`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks import trainingrun
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.processes import output_of
from tests.app.tables import write_breast_cancer, write_digits_table, write_regression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pydantic import JsonValue

BATCH = 32
PROGRAMS = {
    "xgboost": "trainshed.programs.boosted_trees:train",
    "torch": "trainshed.programs.tabular:train",
    "tensorflow": "trainshed.programs.keras_mlp:train",
}
SAMPLED: dict[str, JsonValue] = {"subsample": 0.8, "colsample_bytree": 0.8, "max_depth": 4}
DIGITS: dict[str, JsonValue] = {
    "features": [f"p{place:02}" for place in range(64)],
    "classes": 10,
    "learningRate": 0.003,
}
REGRESSION: dict[str, JsonValue] = {
    "task": "regression",
    "label": "y",
    "features": [f"x{place}" for place in range(10)],
    "learningRate": 0.003,
}


@dataclass(frozen=True)
class Task:
    """What is learnt.

    Args:
        framework: that learns it.
        write: its rows.
        label: the column that is predicted.
        config: of our program; the plain one is told the same, for XGBoost its parameters alone.
        metric: of ours that is compared.
        score: turns it into what the plain program writes.
        noise: how far apart the medians of equals may lie.
        epochs: or rounds.
    """

    framework: str
    write: Callable[[Path], None]
    label: str
    config: dict[str, JsonValue]
    metric: str
    score: Callable[[float], float]
    noise: float
    epochs: int


def same(value: float) -> float:
    """Return what is compared as it is."""
    return value


def trees(
    write: Callable[[Path], None],
    label: str,
    noise: float,
    **params: JsonValue,
) -> Task:
    """Return a task for XGBoost."""
    config = {**params, **SAMPLED}
    metric = f"valid.{params['eval_metric']}"
    return Task("xgboost", write, label, config, metric, same, noise, 60)


# Of 497 held-out digits 4 % are mistaken, give or take 0.9 (a standard error); of 169 breasts 1.5.
TASKS = {
    "breast cancer, XGBoost": trees(
        write_breast_cancer, "kind", 0.015, objective="binary:logistic", eval_metric="error"
    ),
    "digits, XGBoost": trees(
        write_digits_table,
        "label",
        0.009,
        objective="multi:softprob",
        eval_metric="merror",
        num_class=10,
    ),
    "regression, XGBoost": trees(
        write_regression, "y", 1.5, objective="reg:squarederror", eval_metric="rmse"
    ),
    **{
        f"digits, {name}": Task(
            framework,
            write_digits_table,
            "label",
            DIGITS,
            "valid.accuracy",
            lambda accuracy: 1 - accuracy,
            0.009,
            20,
        )
        for name, framework in (("PyTorch", "torch"), ("Keras", "tensorflow"))
    },
    **{
        f"regression, {name}": Task(
            framework,
            write_regression,
            "y",
            REGRESSION,
            "valid.loss",
            lambda mse: mse**0.5,
            0.5,
            40,
        )
        for name, framework in (("PyTorch", "torch"), ("Keras", "tensorflow"))
    },
}


def main() -> None:
    """Score all of them."""
    given = options(__doc__)
    sides: dict[str, Callable[[Path], Sample]] = {}
    for name, task in TASKS.items():
        sides[f"{name}: plain"] = partial(plain, task, count())
        for workers in (1, 2):
            sides[f"{name}: {workers}"] = partial(ours, task, workers, count())
    samples = in_turn(sides, given, is_timed=False)
    figures = []
    for name, task in TASKS.items():
        alone = samples.of(f"{name}: plain", "score")
        figures.append(Figure(f"{name}: plain", "", alone))
        for workers in (1, 2):
            mine = samples.of(f"{name}: {workers}", "score")
            more = [score - other for score, other in zip(mine, alone, strict=True)]
            target = Target("value", "<=", task.noise)
            figures.append(Figure(f"  ours, workers: {workers}", "", mine))
            figures.append(Figure("    more than plain", "", more, target=target))
    publish("held_out", figures, samples, given)


def plain(task: Task, seeds: Iterator[int], folder: Path) -> Sample:
    """Return what the plain program scores."""
    task.write(folder)
    told = task.config if task.framework == "xgboost" else task.config | {"batchSize": BATCH}
    options = {
        "framework": task.framework,
        "data": folder,
        "label": task.label,
        "config": told,
        "seed": next(seeds),
        "epochs": task.epochs,
    }
    return {"score": float(output_of("benchmarks.plain.held_out", folder, options))}


def ours(task: Task, workers: int, seeds: Iterator[int], folder: Path) -> Sample:
    """Return what a run scores."""
    task.write(folder)
    epochs: dict[str, JsonValue] = {"epochs": task.epochs, "batchSize": BATCH}
    mixed: dict[str, JsonValue] = {"shuffle": {"mode": "global"}, "feed": {"lastBatch": "keep"}}
    config = task.config
    if task.framework == "xgboost":
        config = {"label": task.label, "params": task.config, "numBoostRound": task.epochs}
        epochs, mixed = {}, {}
    datasets: JsonValue = {"train": read("train") | mixed, "valid": read("valid")}
    spec: dict[str, JsonValue] = {
        "train": PROGRAMS[task.framework],
        "framework": task.framework,
        "config": config,
        "seed": next(seeds),
        "data": {"cpus": 1, "datasets": datasets},
        "workers": {"count": workers, "resources": {"cpu": "500m"}},
        **epochs,
    }
    run = trainingrun.train(folder, spec)
    metrics = run.result["metrics"]
    assert isinstance(metrics, dict)
    return {"score": task.score(float(str(metrics[task.metric])))}


def read(name: str) -> dict[str, JsonValue]:
    """Return a dataset of the rows that were written under a name."""
    return {"read": {"format": "parquet", "path": name}}


if __name__ == "__main__":
    main()
