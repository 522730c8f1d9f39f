"""Rounds after a restart are those of a run that was not restarted."""

import numpy as np
import pytest
import xgboost

from trainshed.boosting.booster_state import BoosterState
from trainshed.boosting.early_stopping import EarlyStoppingState
from trainshed.boosting.rounds import draws_samples, forget_samples, scores_of

PARAMS = {
    "objective": "binary:logistic",
    "tree_method": "hist",
    "nthread": 1,
    "seed": 3,
    "seed_per_iteration": True,
    "max_depth": 4,
    "max_bin": 32,
}
KINDS: dict[str, dict[str, object]] = {
    "all rows and columns": {},
    "half of the rows": {"subsample": 0.5},
    "half of the columns of a tree": {"colsample_bytree": 0.5},
    "half of the columns of a node": {"colsample_bynode": 0.5},
    "rows and columns": {"subsample": 0.5, "colsample_bylevel": 0.5},
    "forests": {"num_parallel_tree": 3, "subsample": 0.5},
    "rows by gradient": {"subsample": 0.5, "sampling_method": "gradient_based"},
    "dropped trees": {"booster": "dart", "rate_drop": 0.3},
    "dropped trees and half of the rows": {"booster": "dart", "rate_drop": 0.3, "subsample": 0.5},
    "by loss": {"grow_policy": "lossguide", "max_leaves": 8, "max_depth": 0, "subsample": 0.5},
    "several metrics": {"eval_metric": ["error", "logloss"], "subsample": 0.5},
    "constraints by name": {"monotone_constraints": {"f0": 1}, "subsample": 0.5},
    "several classes": {"objective": "multi:softprob", "num_class": 3, "subsample": 0.5},
}


def make_matrix() -> xgboost.QuantileDMatrix:
    """Return rows that three classes can be told of, but not at once."""
    rng = np.random.default_rng(0)
    x_BF = rng.normal(size=(2000, 8)).astype(np.float32)
    y_B = (x_BF[:, 0] * x_BF[:, 1] > 0).astype(np.float32)
    names = [f"f{place}" for place in range(8)]
    return xgboost.QuantileDMatrix(x_BF, y_B, nthread=1, max_bin=32, feature_names=names)


def boost(params: dict[str, object], state: BoosterState, rounds: int) -> bytes:
    """Go on to so many rounds as a run does; return the model."""
    matrix = make_matrix()
    booster = state.begin(params, [matrix], EarlyStoppingState(None))
    for number in range(booster.num_boosted_rounds(), rounds):
        if draws_samples(params):
            forget_samples(booster)
        booster.update(matrix, iteration=number)
        scores_of(booster, {"train": matrix}, number, None)
    return bytes(booster.save_raw("ubj"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_restarted_run_grows_the_same_trees(kind: str) -> None:
    params = PARAMS | KINDS[kind]
    whole = boost(params, BoosterState(), 12)

    half = BoosterState()
    boost(params, half, 5)
    rest = BoosterState()
    rest.load(half.weights() | half.state())

    assert boost(params, rest, 12) == whole


def test_samples_differ_from_round_to_round() -> None:
    matrix = make_matrix()
    params = PARAMS | {"subsample": 0.5, "eta": 0.0}
    booster = xgboost.Booster(params, [matrix])
    for number in range(3):
        forget_samples(booster)
        booster.update(matrix, iteration=number)

    trees = booster.get_dump(with_stats=True)
    assert len(set(trees)) == 3


def test_scores_are_told_apart_by_dataset_also_where_names_begin_alike() -> None:
    matrix = make_matrix()
    booster = xgboost.Booster(PARAMS | {"eval_metric": ["error", "error@0.7"]}, [matrix])
    booster.update(matrix, iteration=0)

    scores = scores_of(booster, {"v": matrix, "v-1": matrix}, 0, None)

    assert {name: list(found) for name, found in scores.items()} == {
        "v": ["error", "error@0.7"],
        "v-1": ["error", "error@0.7"],
    }
    assert scores["v"] == scores["v-1"]


def test_a_model_before_the_first_round_is_none() -> None:
    empty = BoosterState()

    again = BoosterState()
    again.load(empty.weights() | empty.state())

    assert again.booster is None
