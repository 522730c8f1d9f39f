"""Observes a function that boosts."""

import xgboost

from hack.stops.marks import begin_batches, count_step, digest, hold, keep_weights
from trainshed.boosting.boosting_run import BoostingRun
from trainshed.worker.base_run import BaseRun


class ObservedRounds:
    """The run of a worker that boosts: each round is a step, and its rows are the trees."""

    def __init__(self, run: BaseRun) -> None:
        assert isinstance(run, BoostingRun)
        self._run, self._end_round = run, run.end_round
        self._is_first = True
        run.end_round = self.end_round  # type: ignore[method-assign, assignment]

    def end_round(self, booster: xgboost.Booster, *words: object) -> None:
        """Count a round."""
        if self._is_first:
            begin_batches()
        self._is_first = False
        trees = int(digest(bytes(booster.save_raw())), 16)
        count_step(self._run.rank, 0, self._run.step + 1, {"trees": [trees]})
        self._end_round(booster, *words)  # type: ignore[arg-type]

    def finish(self) -> None:
        """Keep the trees."""
        assert self._run.booster
        if self._run.rank == 0:
            keep_weights({"trees": bytes(self._run.booster.save_raw())}, None)
        hold("report")
