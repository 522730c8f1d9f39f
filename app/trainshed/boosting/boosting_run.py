"""The run as a training function of XGBoost sees it: `trainshed.boosting.current()`."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import ray.train.torch

from trainshed.boosting import matrix as matrices
from trainshed.boosting.booster_state import BoosterState
from trainshed.boosting.early_stopping import EarlyStopping, EarlyStoppingState
from trainshed.boosting.feature_state import FeatureState
from trainshed.boosting.matrix import Matrix, Share
from trainshed.boosting.matrix_columns import MatrixColumns
from trainshed.boosting.rounds import draws_samples, forget_samples, keep_texts, scores_of
from trainshed.worker.base_run import BaseRun
from trainshed.worker.phase_timer import CHECKPOINTING, EVALUATING, WAITING
from trainshed_api.progress import Evaluated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import xgboost

    from trainshed.boosting.rounds import Metric, Objective, Scores
    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.worker.attempt_config import AttemptConfig

__all__ = ["BoostingRun", "EarlyStopping", "Matrix", "MatrixColumns"]

DEFAULT_BINS = 256


class BoostingRun(BaseRun):
    """One worker's side of a run whose steps are rounds.

    Args:
        job: what to do.
        coordinator: of the run.
    """

    framework = "xgboost"
    asked_for_by = "trainshed.boosting.current()"

    def __init__(self, job: AttemptConfig, coordinator: Coordinator) -> None:
        # All rounds are one epoch: a checkpoint at its end is the result. No user has set it.
        spec = job.spec.model_copy(update={"epochs": 1})
        spec.model_fields_set.discard("epochs")
        super().__init__(replace(job, spec=spec), coordinator)
        self._state = BoosterState()
        self._has_scored = False
        self._loop.checkpoint_adapter = self._state
        self._loop.board.step_name = "round"
        with self._loop.phase_timer.inside(CHECKPOINTING):
            self._loop.saver.restore(self._state)

    @property
    def booster(self) -> xgboost.Booster | None:
        """Return the booster as it is now: after a loss that of the last checkpoint."""
        return self._state.booster

    def matrix(
        self,
        dataset: str,
        columns: MatrixColumns,
        like: Matrix | None = None,
        max_bin: int = DEFAULT_BINS,
    ) -> Matrix:
        """Return this rank's share of a dataset. A collective.

        Args:
            dataset: its name.
            columns: what its columns are.
            like: the matrix that trains, for one that only scores.
            max_bin: cuts of a feature; that of the parameters.

        Raises:
            ValueError: for columns that are not there, or a rank without rows.
        """
        by_groups = columns.group is not None
        share = Share(
            f"spec.data.datasets.{dataset}",
            partial(self._tables, dataset, by_groups),
            self._loop.control,
            self.rank,
            self.world_size,
        )
        with self._loop.phase_timer.inside(WAITING):
            made = matrices.build(share, columns, like, max_bin, self._job.threads)
        if like is None:
            self._describe(made)
        return made

    def _describe(self, train: Matrix) -> None:
        """Record in checkpoints how rows become features, and the classes of a label of texts."""
        state = FeatureState.of(train.columns, train.categories, train.layout)
        classes = train.categories.by_column.get(train.columns.label)
        saver = self._loop.saver
        saver.prediction = saver.prediction.model_copy(
            update={
                "state": state.model_dump(mode="json", by_alias=True),
                "features": tuple(each.name for each in train.layout.inputs),
                "classes": classes or saver.prediction.classes,
            }
        )

    def boost(  # noqa: PLR0913 - as xgboost.train has it
        self,
        params: Mapping[str, object],
        train: Matrix,
        rounds: int,
        *,
        scored: Mapping[str, Matrix] | None = None,
        early_stopping: EarlyStopping | None = None,
        objective: Objective | None = None,
        metric: Metric | None = None,
    ) -> xgboost.Booster:
        """Boost until the booster has `rounds` rounds. A collective.

        After a loss it goes on with the trees of the last checkpoint, and the same ones follow.

        Args:
            params: XGBoost's own; the seed is the run's, the threads are the worker's.
            train: what trees are grown on.
            rounds: of the whole run.
            scored: what each round is scored on, by name.
            early_stopping: when to stop before.
            objective: gives gradient and hessian of raw predictions.
            metric: gives name and value; the mean over ranks counts.

        Raises:
            StopTraining: when the run was asked to stop.
        """
        scored = scored or {}
        self._loop.board.steps, self._loop.board.epoch = rounds, 1
        self._loop.begin_steps()
        settings = self._settings(params)
        watch = EarlyStoppingState(early_stopping)
        others = [each.data for each in scored.values() if each is not train]
        booster = self._state.begin(settings, [train.data, *others], watch)
        keep_texts(booster, train.categories)
        is_sampled = draws_samples(settings)
        while self._loop.position.epoch == 0 and not watch.is_over:
            number = booster.num_boosted_rounds()
            if number >= rounds:
                break
            if is_sampled:
                forget_samples(booster)
            booster.update(train.data, iteration=number, fobj=objective)
            with self._loop.phase_timer.inside(EVALUATING):
                matrices_by_name = {name: each.data for name, each in scored.items()}
                scores = scores_of(booster, matrices_by_name, number, metric)
                if metric is not None:
                    scores = self._means(scores)
            if watch.see(number, scores):
                booster.set_attr(best_iteration=str(number), best_score=str(watch.best))
            self.end_round(booster, scores, train.rows)
        done = booster.num_boosted_rounds()
        if watch.is_over and done < rounds:
            self._loop.note = watch.describe(done, rounds)
        if self._loop.position.epoch == 0:
            self._loop.end_epoch()
        return booster

    def end_round(self, booster: xgboost.Booster, scores: Scores, rows: int) -> None:
        """Count a round that a loop of the function's own has made. A collective now and then.

        Args:
            booster: as it is after the round.
            scores: by dataset and metric.
            rows: of all ranks.

        Raises:
            StopTraining: when the run was asked to stop.
        """
        self._state.booster = booster
        metrics = {
            f"{dataset}.{name}": value
            for dataset, by_metric in scores.items()
            for name, value in by_metric.items()
            if math.isfinite(value)
        }
        if metrics:
            self._loop.measure(metrics, self.step + 1)
            said = Evaluated(time=time.time(), epoch=1, step=self.step + 1, metrics={**metrics})
            self._loop.say([said])
            if not self._has_scored:
                # Not when all rounds are done, as at an epoch's end: they would be lost.
                self._loop.check_best()
                self._has_scored = True
        self._loop.end_step(rows)

    def planned_steps(self) -> int | None:
        """Return None: how many rounds there are is known when they begin."""
        return None

    def announce(self) -> None:
        """Say that training begins, and what another number of workers means for it."""
        began = self._loop.saver.manifest
        if began and began.position.step and began.workers != self.world_size:
            self.warn(
                f"{self.world_size} workers go on with trees that {began.workers} have grown: they "
                "cut features at other places, so the trees that follow are not the same"
            )
        super().announce()

    def _means(self, scores: Scores) -> Scores:
        """Return the means over ranks: a metric of the function's own knows this rank's rows."""
        numbers = np.asarray([value for found in scores.values() for value in found.values()])
        self.sum_over_ranks(numbers)
        means = iter((numbers / self.world_size).tolist())
        return {name: {metric: next(means) for metric in found} for name, found in scores.items()}

    def _settings(self, params: Mapping[str, object]) -> dict[str, object]:
        ours = {
            "seed": self._job.spec.seed,
            # Else what a round draws would hang on the rounds before, which a loaded booster lacks.
            "seed_per_iteration": True,
            "nthread": self._job.threads,
            "device": ray.train.torch.get_device().type,
        }
        return {**ours, **params, "tree_method": "hist"}

    def _tables(self, dataset: str, by_groups: bool) -> Iterator[Columns]:
        return self._awaited(self._feeds.columns(dataset, "whole" if by_groups else "exact"))
