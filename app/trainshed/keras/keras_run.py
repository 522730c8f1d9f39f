"""The run as a training function of Keras sees it: `trainshed.keras.current()`."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from trainshed.keras import tf_config
from trainshed.keras.callbacks import CallbacksOfRun
from trainshed.keras.checks import check_model
from trainshed.keras.feeding import Fed
from trainshed.keras.keras_state import KerasState
from trainshed.keras.step_callback import StepCallback
from trainshed.keras.train_loop import KerasTrainLoop
from trainshed.worker.base_run import EpochRun
from trainshed.worker.evaluation import EvaluationStoppedError
from trainshed.worker.phase_timer import CHECKPOINTING, EVALUATING, WAITING
from trainshed_api.progress import Evaluated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import tensorflow as tf

    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.loader.batches import Batch
    from trainshed.data.loader.prefetch import Prefetched
    from trainshed.data.sampler.epoch_pass import EpochPass
    from trainshed.keras.feeding import Pair
    from trainshed.worker.attempt_config import AttemptConfig


class KerasRun(EpochRun):
    """One worker's side of a run; every method that says so is a collective of all ranks.

    Args:
        job: what to do.
        coordinator: of the run.
    """

    framework = "tensorflow"
    asked_for_by = "trainshed.keras.current()"

    def __init__(self, job: AttemptConfig, coordinator: Coordinator) -> None:
        super().__init__(job, coordinator)
        self.strategy = tf_config.join(self.control, self.rank, self.world_size)
        self._tracked: tuple[tf.keras.Model, KerasState] | None = None

    def track(self, model: tf.keras.Model) -> None:
        """Name the model that must survive, and load the checkpoint that this attempt resumes from.

        Args:
            model: built and compiled within `strategy.scope()`; a checkpoint holds it whole.

        Raises:
            TypeError: for one of Keras 3.
            ValueError: for one that could not be gone on with.
            RuntimeError: when it is called a second time.
        """
        if self._tracked is not None:
            raise RuntimeError("track: called a second time; expected one call with one model")
        check_model(model)
        # What each rank has of a metric is of all ranks by then: Keras would add them up (tf-keras
        # 2.21, training.py, reduce_per_replica), so that the accuracy of two workers goes up to 2.
        model.distribute_reduction_method = "first"
        state = KerasState(model, self.strategy)
        self._tracked = model, state
        self._loop.checkpoint_adapter = state
        with self._loop.phase_timer.inside(CHECKPOINTING):
            self._loop.saver.restore(state)

    def fit(
        self,
        pair: Pair,
        *,
        dataset: str = "train",
        scored: Sequence[str] = (),
        callbacks: Sequence[tf.keras.callbacks.Callback] = (),
    ) -> None:
        """Train the tracked model for the epochs that are left. A collective.

        Args:
            pair: makes (inputs, targets) of the columns of a batch, or (inputs, targets, weights of
                the rows): arrays whose first axis is the row, or tuples or dicts of such.
            dataset: its batches are the steps.
            scored: datasets that are evaluated after each epoch.
            callbacks: of Keras. They monitor scores as `<dataset>.<metric>`, and those of the first
                dataset as `val_<metric>` too; the plain values that they remember survive.

        Raises:
            RuntimeError: before `track(model)`, or without `epochs` in the spec.
            StopTraining: when the run was asked to stop.
        """
        model, state = self._model()
        if state.is_over:
            return
        progress = StepCallback(self._loop, self._log)
        told = CallbacksOfRun(
            [*callbacks, progress], model, self._job.spec.epochs or 0, state.remembered
        )
        state.remember = told.memory
        model.stop_training = False
        steps = KerasTrainLoop(model, self.strategy)
        for epoch in self.epochs():
            logs = self._fit_epoch(pair, dataset, epoch, steps, told, progress)
            logs |= self._scores(pair, scored)
            told.on_epoch_end(epoch, logs)
            # Rank 0 decides: a user's callback may differ on other ranks.
            state.is_over = bool(self.control.from_leader(int(model.stop_training)))
            if state.is_over or epoch + 1 == self._job.spec.epochs:
                model.optimizer.finalize_variable_values(model.trainable_variables)
                told.on_train_end(logs)
            if state.is_over:
                if epoch + 1 < (self._job.spec.epochs or 0):
                    self._loop.note = (
                        f"Stopped early after epoch {epoch + 1} of {self._job.spec.epochs}, as a "
                        "callback asked."
                    )
                self._loop.end_epoch()
                return

    def _fit_epoch(  # noqa: PLR0913, PLR0917 - what an epoch is made of
        self,
        pair: Pair,
        dataset: str,
        epoch: int,
        steps: KerasTrainLoop,
        told: CallbacksOfRun,
        progress: StepCallback,
    ) -> dict[str, float]:
        """Train the rest of an epoch; return the metrics over it."""
        self._loop.begin_steps()
        at, reading = self._feeds.passing(dataset, "train", self._loop.position), None
        if dataset != self._job.main_dataset:
            positions = self._loop.dataset_positions
            positions.begin_step()
            reading = positions.open(dataset, epoch, in_epochs=True)
            at = self._feeds.passing_beside_steps(dataset, reading.start)
        feed = self._feeds.feed(dataset)
        with self._loop.phase_timer.inside(WAITING):
            count = self._waited_for(lambda: feed.steps(at)).count
        done = self._loop.position.step_in_epoch
        self._loop.steps_in_epoch = done + count - at.first_step
        if self._job.spec.epochs is not None:
            self._loop.board.steps = count * self._job.spec.epochs
        if at.first_step == count:  # stopped between its last step and its end
            return {}
        if at.first_step == 0:  # else an earlier attempt has told them
            told.on_epoch_begin(epoch)
        batches = self._feeds.feed(dataset).batches(at)
        batches.while_waiting = self._while_waiting
        taken = self._each_waited_for(self._loop.phase_timer.waiting_for(batches, dataset))
        if reading is not None:
            taken = self._loop.dataset_positions.counted(reading, taken)
        with self._fed(batches, taken, pair, trains=True) as fed:
            progress.rows = fed.totals.__getitem__
            return steps.epoch(fed.elements(), count - at.first_step, told)

    def _scores(self, pair: Pair, scored: Sequence[str]) -> dict[str, float]:
        """Evaluate datasets; return what callbacks monitor."""
        found: dict[str, float] = {}
        for place, name in enumerate(scored):
            metrics = self.evaluate(pair, name)
            found |= metrics
            if place == 0:
                found |= {f"val_{key.partition('.')[2]}": value for key, value in metrics.items()}
        return found

    def evaluate(self, pair: Pair, dataset: str = "valid") -> dict[str, float]:
        """Return what the tracked model's metrics come to over all rows, as `<dataset>.<name>`.

        A collective.

        Args:
            pair: as in `fit`.
            dataset: its name.

        Raises:
            RuntimeError: before `track(model)`.
            ValueError: when there are fewer rows than workers.
            StopTraining: when the run was asked to stop while all ranks wait for rows.
        """
        (model, _), loop = self._model(), self._loop
        feed = self._feeds.feed(dataset)
        with loop.phase_timer.inside(EVALUATING):
            self._share_statistics(model)
            at = self._whole(dataset)
            steps = self._waited_for(lambda: feed.steps(at)).count
            batches = self._feeds.feed(dataset).batches(at)
            batches.while_waiting = self._end_evaluation
            try:
                with self._fed(batches, self._scored(batches), pair, trains=False) as fed:
                    rows = fed.dataset(self.strategy)
                    found = model.evaluate(rows, steps=steps, return_dict=True, verbose=0)
            except EvaluationStoppedError:
                loop.stop_here()
        metrics = {f"{dataset}.{name}": float(value) for name, value in found.items()}
        loop.measure(metrics, self.step)
        said = Evaluated(
            time=time.time(), epoch=loop.board.epoch, step=self.step, metrics={**metrics}
        )
        loop.say([said])
        return metrics

    def _share_statistics(self, model: tf.keras.Model) -> None:
        """Give every rank the means of running statistics: each evaluates by its own otherwise.

        A checkpoint holds their means; after a resume every rank continues from these.
        """
        if self.world_size == 1:
            return
        for variable in model.non_trainable_variables:
            # By name: TensorFlow itself is not imported here.
            if getattr(variable, "synchronization", None) and (
                variable.synchronization.name == "ON_READ"
            ):
                variable.assign(variable.read_value())

    def _model(self) -> tuple[tf.keras.Model, KerasState]:
        if self._tracked is None:
            raise RuntimeError("fit and evaluate need track(model) before")
        return self._tracked

    def _log(self, name: str, value: float) -> None:
        if self.rank == 0:
            self._loop.board.logged.add(name, value, self.step + 1)

    def _end_evaluation(self) -> None:
        """End an evaluation, whose batches a thread of TensorFlow takes, if all ranks stop."""
        may_cut = self.rank > 0 or self._loop.may_cut_evaluation
        if may_cut and self._loop.stops_waiting(evaluates=True):
            raise EvaluationStoppedError

    def _scored(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            if self._loop.stops_after_wait():
                raise EvaluationStoppedError
            yield batch

    @contextmanager
    def _fed(
        self, batches: Prefetched[Batch], taken: Iterator[Batch], pair: Pair, *, trains: bool
    ) -> Iterator[Fed]:
        """Yield a pass; what making its batches raised is raised as it was.

        Args:
            batches: of the pass, which are closed at the end.
            taken: the same as they are fed.
            pair: as in `fit`.
            trains: whether rows have the weights that training needs.
        """
        fed = Fed(taken, pair, self.world_size, is_weighted=trains)
        try:
            yield fed
        except Exception as error:
            if fed.error is not None and fed.error is not error:
                raise fed.error from None
            raise
        finally:
            batches.close()

    def _whole(self, dataset: str) -> EpochPass:
        """Return a pass over every row in which each rank has a row in each step."""
        at = self._feeds.passing(dataset, "exact", self._loop.position)
        rows = int(self._feeds.feed(dataset).rows)
        if rows < self.world_size:
            raise ValueError(f"evaluate: {dataset} has {rows} rows for {self.world_size} workers")
        size = max(at.batch_size, self.world_size)
        while 0 < rows % size < self.world_size:
            size += 1
        return replace(at, batch_size=size)
