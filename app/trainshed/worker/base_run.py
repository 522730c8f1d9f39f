"""The run as training functions of any framework see it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, NoReturn, TypeVar

import ray.train
import torch

from trainshed.checkpoint.manifest import Prediction
from trainshed.data.loader.prefetch import Prefetched
from trainshed.data.sources.stage_timer import TELLER
from trainshed.storage import training_figures
from trainshed.worker.dataset_positions import DatasetPositions
from trainshed.worker.dataset_registry import DatasetRegistry
from trainshed.worker.examples import keep_examples
from trainshed.worker.loop import StopTraining, TrainingLoop
from trainshed.worker.plain_function import PlainFunction
from trainshed_api.progress import ResumePoint, Started, WarningEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trainshed.coordinator.actor import Coordinator
    from trainshed.coordinator.run_state import Failure
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.step_sync import Control

Answer = TypeVar("Answer")
Item = TypeVar("Item")


class BaseRun:
    """One worker's side of a run; every method that says so is a collective of all ranks.

    Args:
        job: what to do.
        coordinator: of the run.
    """

    # As a TrainingRun names it, and how a function asks for its run.
    framework: str
    asked_for_by: str

    def __init__(self, job: AttemptConfig, coordinator: Coordinator) -> None:
        context = ray.train.get_context()
        self.rank: int = context.get_world_rank()
        self.world_size: int = context.get_world_size()
        self._job = job
        self._loop = TrainingLoop(job, coordinator, self.rank, self.world_size)
        # On several nodes each node would fetch all blocks, for the rows of its ranks.
        is_one_node = context.get_local_world_size() == self.world_size
        self._feeds = DatasetRegistry(
            job,
            coordinator,
            self.rank,
            self.world_size,
            self._loop.group,
            cuts_blocks=is_one_node,
        )
        self._loop.saver.describe_data = self._feeds.describe
        TELLER.tell(coordinator.spend)
        self.plain_function = PlainFunction(job, coordinator, self._feeds, self.warn)
        self._saw_stop = False

    @property
    def step(self) -> int:
        """Return the number of finished steps, including those of earlier attempts."""
        return self._loop.position.step

    @property
    def control(self) -> Control:
        """Return the process group for agreements."""
        return self._loop.control

    def planned_steps(self) -> int | None:
        """Return the steps of the whole run, if the row counts are known.

        Raises:
            StopTraining: if the run was asked to stop while all ranks wait for them.
        """
        return self._waited_for(lambda: self._feeds.planned_steps(self._loop.position))

    def _waited_for(self, ask: Callable[[], Answer]) -> Answer:
        """Return a result that may wait for rows, between two steps.

        Raises:
            StopTraining: if the run was asked to stop while all ranks wait.
        """
        with contextlib.closing(self._awaited(ask() for _ in range(1))) as answers:
            return next(answers)

    def _awaited(self, items: Iterator[Item]) -> Generator[Item, None, None]:
        """Yield items each of which may have to wait for rows, between two steps.

        Raises:
            StopTraining: when the run was asked to stop while all ranks wait.
        """
        coming = Prefetched(items, depth=0)
        coming.while_waiting = self._while_waiting
        with contextlib.closing(coming):
            yield from self._each_waited_for(coming)

    def _each_waited_for(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield items that call `_while_waiting`, and take back that they are waited for."""
        for item in items:
            self._after_waiting()
            yield item
        self._after_waiting()  # the end of the rows may have been waited for, too

    def _while_waiting(self) -> None:
        if self._loop.stops_waiting():
            self._stop_here()

    def _after_waiting(self) -> None:
        if self._loop.stops_after_wait():
            self._stop_here()

    def _stop_here(self) -> NoReturn:
        self._loop.stop_here()

    @property
    def datasets(self) -> tuple[str, ...]:
        """Return the names of the spec's datasets."""
        return tuple(self._job.plans)

    def sum_over_ranks(self, numbers: NDArray[np.int64] | NDArray[np.float64]) -> None:
        """Replace numbers by their sums over all ranks. A collective."""
        self._loop.control.sum(torch.from_numpy(numbers))

    def describe_model(  # noqa: PLR0913 - the fields of a description
        self,
        *,
        classes: Sequence[str] = (),
        features: Sequence[str] = (),
        builder: Callable[..., object] | None = None,
        input_transform: Callable[..., object] | None = None,
        predict: Callable[..., object] | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Record in the manifest of every checkpoint what a program needs for prediction.

        Args:
            classes: names of the labels by index; by default the names of label folders.
            features: columns that the model reads, in their order.
            builder: function that builds the model.
            input_transform: function that converts a batch to the model's input.
            predict: function that `trainshed predict` calls with the model and a batch, and with
                this description if it has a third parameter; returns the predictions, or several
                columns by name.
            config: arguments of the builder; plain values.

        Raises:
            ValidationError: if the config has values that JSON lacks.
        """
        known = self._loop.saver.prediction
        self._loop.saver.prediction = Prediction.model_validate(
            {
                "classes": classes or known.classes,
                "features": features or known.features,
                "builder": builder and _name_of(builder),
                "input_transform": input_transform and _name_of(input_transform),
                "predict": predict and _name_of(predict),
                "config": dict(config or {}),
                "dataset": known.dataset,
                "state": known.state,
            }
        )

    def show(
        self,
        name: str,
        images: NDArray[np.uint8],
        captions: Sequence[str],
        good: Sequence[bool] | None = None,
    ) -> None:
        """Add pictures to the report.

        Args:
            name: of the group.
            images: shape (n, height, width) or (n, height, width, 3).
            captions: one per picture.
            good: whether each is correct.
        """
        if self.rank:
            return
        try:
            keep_examples(self._job.folder / "examples", name, images, captions, good)
        except OSError as error:
            self.warn(f"the report misses the pictures {name}: {error}")

    def show_importance(self, name: str, shares: Mapping[str, float]) -> None:
        """Add the importance of each feature to the report; rank 0's values count.

        Args:
            name: of the figure.
            shares: by feature; at least 0.
        """
        if self.rank == 0:
            shown, others = training_figures.largest(dict(shares))
            figure = training_figures.Importance(name=name, shares=shown, others=others)
            self._keep(figure)

    def show_confusion(
        self, name: str, counts: NDArray[np.int64], classes: Sequence[str] | None = None
    ) -> None:
        """Add a confusion matrix to the report; rank 0's values count.

        Args:
            name: of the figure.
            counts: rows, shape (classes, classes): true class, then predicted class.
            classes: their names; by default their indices.
        """
        if len(counts) > training_figures.MOST_CLASSES:
            self.warn(f"{name}: {len(counts)} classes are too many for a figure of the report")
        elif self.rank == 0:
            names = list(classes or map(str, range(len(counts))))
            figure = training_figures.Confusion(name=name, classes=names, counts=counts.tolist())
            self._keep(figure)

    def _keep(self, figure: training_figures.Importance | training_figures.Confusion) -> None:
        try:
            training_figures.keep(self._job.folder, figure)
        except OSError as error:
            self.warn(f"the report misses the figure {figure.name}: {error}")

    def warn(self, message: str) -> None:
        """Warn the user; the run continues."""
        self._loop.say([WarningEvent(time=time.time(), message=message)])

    def announce(self) -> None:
        """Report that training begins, from which step, and the number of rows if known."""
        steps, job, saver = self.planned_steps(), self._job, self._loop.saver
        for refused in saver.refused:
            self.warn(refused)
        if saver.start is None:
            resumed_from = self.plain_function.resume_point
        else:
            begun = saver.position
            resumed_from = ResumePoint(
                checkpoint=str(saver.start), epoch=begun.epoch, step=begun.step
            )
        started = Started(
            time=time.time(),
            run=job.name,
            attempt=job.attempt,
            workers=self.world_size,
            rows={name: plan.rows for name, plan in job.plans.items() if plan.rows is not None},
            epochs=job.spec.epochs,
            steps=steps,
            folder=str(job.folder.parent.parent),
            resumed_from=resumed_from,
            step_name=self._loop.board.step_name,
        )
        self._loop.say([started], at_once=True)

    def wants_stop(self) -> bool:
        """Return whether the run was asked to stop, the same on all ranks. A collective.

        For functions with their own loop, after each step. Once it is True the function saves by
        its own means: `ray.train.report` with a checkpoint ends it. It may also return. A function
        that calls `track` stops by itself.
        """
        self._saw_stop = bool(self.control.from_leader(int(self._loop.wants_stop)))
        return self._saw_stop

    @property
    def returned_for_stop(self) -> bool:
        """Return whether a function that has returned did so because it was asked to stop."""
        return self._saw_stop and self._loop.checkpoint_adapter is None

    def stop_at_report(self, *, saves: bool, has_saved: bool) -> None:
        """Stop a function that has its own loop, and has just reported. A collective.

        One that saves checkpoints, or resumed from its own, stops at the next one. After a call of
        `track` or the like it does nothing: that run stops at the end of a step.

        Args:
            saves: whether this rank has saved a checkpoint with a report.
            has_saved: whether it saved one with this report.

        Raises:
            StopTraining: if the run was asked to stop.
        """
        if self._loop.checkpoint_adapter is not None:
            return
        saves = saves or self.plain_function.checkpoint is not None
        flags = [self._loop.wants_stop, saves, has_saved]
        # numbers has shape (3,)
        numbers = torch.tensor([int(flag) for flag in flags], dtype=torch.int64)
        self.control.sum(numbers)
        wants_stop, num_saving, num_saved = numbers.tolist()
        if wants_stop and (num_saved or not num_saving):
            raise StopTraining

    def fail(self, failure: Failure) -> None:
        """Report that the training function raised; no collective: others may be anywhere."""
        self._loop.fail(failure)

    def finish(self, stopped: bool) -> None:
        """Wait for the last checkpoint and report how the run ended. A collective."""
        TELLER.tell_now()
        if not stopped:
            # A run that resumes after its last step takes no more batches.
            took_batches = self.step > 0 or self._feeds.is_read
            self.plain_function.finish(took_batches=took_batches)
        self._loop.finish(stopped)


class EpochRun(BaseRun):
    """A run whose steps are batches: shared by frameworks that iterate over rows by epoch."""

    def announce(self) -> None:
        """Report that training begins, and where the steps of this number of workers continue."""
        began = self._loop.saver.manifest
        if began:
            self._loop.position = self._feeds.gone_on(self._loop.position, began.workers)
            self._loop.dataset_positions = DatasetPositions(
                self._feeds.beside_steps_gone_on(began.positions, began.workers)
            )
        super().announce()

    def epochs(self) -> Iterator[int]:
        """Yield the remaining epochs, from 0; writes checkpoints between them. A collective.

        Raises:
            RuntimeError: if the spec has no `epochs`.
        """
        if self._job.spec.epochs is None:
            raise RuntimeError("spec.epochs is not set, so epochs() cannot count; set it")
        for epoch in range(self._loop.position.epoch, self._job.spec.epochs):
            self._loop.board.epoch = epoch + 1
            self.plain_function.epoch = epoch
            yield epoch
            self._loop.end_epoch()


def _name_of(function: Callable[..., object]) -> str:
    return f"{function.__module__}:{function.__qualname__}"
