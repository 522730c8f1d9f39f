"""When boosting stops early: as XGBoost's own callback decides, but its counters survive. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# As xgboost.callback.EarlyStopping has it; mape begins like map and is an error.
_MAXIMIZED = ("auc", "aucpr", "pre", "map", "ndcg")


@dataclass(frozen=True)
class EarlyStopping:
    """Stop after rounds without a better score.

    Args:
        rounds: as many, at least 1.
        dataset: whose score counts; without it the last one's.
        metric: its name as XGBoost has it, such as logloss; without it the last one.
        maximize: whether more is better; without it by the metric's name.
        min_delta: by how much a score has to be better.
    """

    rounds: int
    dataset: str | None = None
    metric: str | None = None
    maximize: bool | None = None
    min_delta: float = 0.0


@dataclass
class EarlyStoppingState:
    """Counts the rounds since the best score.

    Args:
        rule: when to stop; None: never.
    """

    rule: EarlyStopping | None
    best: float | None = None
    best_round: int = 0
    _waited: int = 0
    _judged_by: str = "the score"

    def see(self, number: int, scores: Mapping[str, Mapping[str, float]]) -> bool:
        """Take in a round's scores, by dataset and metric; return whether it is the best.

        Raises:
            ValueError: when there is no such score.
        """
        rule = self.rule
        if rule is None:
            return False
        dataset, metric, score = _pick(rule, scores)
        self._judged_by = f"{dataset}.{metric}"
        maximize = rule.maximize
        if maximize is None:
            maximize = metric != "mape" and metric.startswith(_MAXIMIZED)
        sign = 1.0 if maximize else -1.0
        if self.best is not None and not sign * (score - self.best) > rule.min_delta:
            self._waited += 1
            return False
        self.best, self.best_round, self._waited = score, number, 0
        return True

    @property
    def is_over(self) -> bool:
        """Say whether to stop."""
        return self.rule is not None and self._waited >= self.rule.rounds

    def describe(self, done: int, planned: int) -> str:
        """Return the message for a stop before the last planned round."""
        return (
            f"Stopped early after round {done} of {planned}: {self._judged_by} was no better for "
            f"{self._waited} rounds than in round {self.best_round + 1} ({self.best:.4g})."
        )

    def state_dict(self) -> dict[str, object]:
        """Return the counters."""
        return {"best": self.best, "best_round": self.best_round, "waited": self._waited}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take the counters over."""
        best, best_round, waited = state["best"], state["best_round"], state["waited"]
        assert isinstance(best_round, int)
        assert isinstance(waited, int)
        self.best = float(best) if isinstance(best, float) else None
        self.best_round, self._waited = best_round, waited


def _pick(rule: EarlyStopping, scores: Mapping[str, Mapping[str, float]]) -> tuple[str, str, float]:
    """Return dataset, metric and score."""
    if not scores:
        raise ValueError("early stopping needs a dataset that is scored")
    dataset = rule.dataset or list(scores)[-1]
    if dataset not in scores:
        raise ValueError(f"early stopping: {dataset} is not scored, only {', '.join(scores)}")
    found = scores[dataset]
    if not found:
        raise ValueError(f"early stopping: {dataset} is scored by no metric")
    metric = rule.metric or list(found)[-1]
    if metric not in found:
        raise ValueError(f"early stopping: {dataset} has no {metric}, only {', '.join(found)}")
    return dataset, metric, found[metric]
