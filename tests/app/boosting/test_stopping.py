"""Boosting stops as XGBoost's own callback does, and its counters survive a restart."""

from collections.abc import Callable

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from trainshed.boosting.early_stopping import EarlyStopping, EarlyStoppingState

SCORES = st.lists(st.integers(0, 6).map(lambda n: n / 4), min_size=1, max_size=30)


def stops_at(
    watch: EarlyStoppingState, scores: list[float], first: int = 0, metric: str = "logloss"
) -> int:
    """Return the round after which a watch stops, -1 for never."""
    for number, score in enumerate(scores, start=first):
        watch.see(number, {"train": {metric: 0.0}, "valid": {metric: score}})
        if watch.is_over:
            return number
    return -1


def xgboost_stops_at(scores: list[float], rounds: int, metric: str) -> tuple[int, int]:
    """Return the same by XGBoost's callback, and its best round."""
    rows = xgboost.DMatrix(np.zeros((2, 1)), label=np.asarray([0.0, 1.0]))
    booster = xgboost.Booster({}, [rows])
    theirs = xgboost.callback.EarlyStopping(rounds=rounds)
    theirs.before_training(booster)
    seen: dict[str, dict[str, list[float]]] = {"train": {metric: []}, "valid": {metric: []}}
    for number, score in enumerate(scores):
        seen["train"][metric].append(0.0)
        seen["valid"][metric].append(score)
        if theirs.after_iteration(booster, number, seen):  # type: ignore[arg-type]  # its log takes pairs
            return number, int(booster.attr("best_iteration") or 0)
    return -1, int(booster.attr("best_iteration") or 0)


@given(scores=SCORES, rounds=st.integers(1, 5), metric=st.sampled_from(["logloss", "auc", "mape"]))
def test_it_stops_where_xgboost_s_own_callback_does(
    scores: list[float], rounds: int, metric: str
) -> None:
    watch = EarlyStoppingState(EarlyStopping(rounds))

    assert (stops_at(watch, scores, metric=metric), watch.best_round) == xgboost_stops_at(
        scores, rounds, metric
    )


@given(scores=SCORES, rounds=st.integers(1, 5), data=st.data())
def test_counters_that_were_kept_stop_it_at_the_same_round(
    scores: list[float], rounds: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(scores)))
    whole, first, second = (EarlyStoppingState(EarlyStopping(rounds)) for _ in range(3))
    want = stops_at(whole, scores)

    found = stops_at(first, scores[:cut])
    if found == -1:
        second.load_state_dict(first.state_dict())
        found = stops_at(second, scores[cut:], first=cut)

    assert found == want


WRONG: dict[str, tuple[Callable[[], EarlyStopping], str]] = {
    "a dataset that is not scored": (
        lambda: EarlyStopping(3, dataset="test"),
        "test is not scored, only train, valid",
    ),
    "a metric that is not there": (
        lambda: EarlyStopping(3, metric="auc"),
        "valid has no auc, only logloss",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_it_shall_look_at_has_to_be_there(case: str) -> None:
    rule, want = WRONG[case]

    with pytest.raises(ValueError, match=want):
        stops_at(EarlyStoppingState(rule()), [1.0])


def test_without_a_rule_it_never_stops() -> None:
    assert stops_at(EarlyStoppingState(None), [1.0] * 50) == -1
