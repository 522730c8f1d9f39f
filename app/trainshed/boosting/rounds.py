"""What a round of boosting is made of: fresh samples, one update, the scores of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import xgboost

    from trainshed.boosting.matrix_columns import Categories

    Objective = Callable[[np.ndarray, xgboost.DMatrix], tuple[np.ndarray, np.ndarray]]
    Metric = Callable[[np.ndarray, xgboost.DMatrix], tuple[str, float]]

Scores = dict[str, dict[str, float]]

# Parameters whose round draws rows or columns.
_SAMPLING = (
    "subsample",
    "colsample_bytree",
    "colsample_bylevel",
    "colsample_bynode",
    "rate_drop",
    "skip_drop",
)


def draws_samples(params: Mapping[str, object]) -> bool:
    """Say whether a round uses random numbers."""
    return any(name in params for name in _SAMPLING)


def forget_samples(booster: xgboost.Booster) -> None:
    """Have the next round draw as if it were the booster's first.

    What draws columns is seeded when a booster grows its first tree and goes on from there; a
    loaded booster starts over, and draws one more random number in its first round. It is
    made anew where the tree method changes, which save_config makes happen; the predictions that
    training keeps stay (XGBoost 3.2: gbtree.cc, UpdatersMatched; updater_quantile_hist.cc).
    """
    booster.set_param("tree_method", "approx")
    booster.save_config()
    booster.set_param("tree_method", "hist")


def scores_of(
    booster: xgboost.Booster,
    scored: Mapping[str, xgboost.DMatrix],
    number: int,
    metric: Metric | None,
) -> Scores:
    """Return what a booster scores after a round, by dataset and metric. A collective."""
    if not scored:
        return {}
    evals = [(matrix, name) for name, matrix in scored.items()]
    # With a custom objective XGBoost has no transformation, and metrics get raw numbers.
    said = booster.eval_set(evals, iteration=number, feval=metric)
    return _parse(said, list(scored))


def _parse(said: str, names: Sequence[str]) -> Scores:
    """Return the scores of XGBoost's line `[3]<tab>train-logloss:0.1<tab>valid-logloss:0.2`."""
    scores: Scores = {name: {} for name in names}
    longest_first = sorted(names, key=len, reverse=True)
    for entry in said.split("\t")[1:]:
        written, _, value = entry.rpartition(":")
        name = next(name for name in longest_first if written.startswith(f"{name}-"))
        scores[name][written.removeprefix(f"{name}-")] = float(value)
    return scores


def keep_texts(booster: xgboost.Booster, categories: Categories) -> None:
    """Write into the model which texts its codes stand for, as the attribute `categories`.

    Raises:
        ValueError: where it has grown on others.
    """
    texts = json.dumps({name: list(known) for name, known in categories.by_column.items()})
    before = booster.attr("categories")
    if before is not None and before != texts:
        raise ValueError(
            f"the rows that train have the texts {texts}, the trees of the checkpoint grew on "
            f"{before}: a run resumes with its own rows only (--fresh starts over)"
        )
    booster.set_attr(categories=texts)
