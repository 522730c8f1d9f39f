"""The run as a training function sees it: `trainshed.current()`."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast, get_origin, is_typeddict, overload

import ray.train.torch
import torch
from typing_extensions import override

from trainshed.checkpoint.state import Stateful, random_state, set_random_state
from trainshed.checkpoint.track_arguments import Trained, read_arguments
from trainshed.checkpoint.tracked import Scheduler, TrackedObjects
from trainshed.checkpoint.wrapping import make_scaler, sharded, trains_alone, unwrapped
from trainshed.worker.base_run import EpochRun
from trainshed.worker.batch_norm import share_statistics
from trainshed.worker.device_prefetcher import DevicePrefetcher, streams_of
from trainshed.worker.evaluation import (
    EvaluationStoppedError,
    Score,
    evaluating,
    exact_means,
    in_step,
    meet_waiting,
    same_buffers,
    until_stopped,
)
from trainshed.worker.phase_timer import CHECKPOINTING, EVALUATING, WAITING
from trainshed.worker.reproducible import sum_in_rank_order
from trainshed.worker.step import Step, as_weight, parts_of
from trainshed_api.progress import Evaluated

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.loader.batch_structure import Tensors
    from trainshed.data.loader.batches import Batch
    from trainshed.data.sampler.epoch_pass import EpochPass
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.step_profiler import StepProfiler
    from trainshed_api.v1alpha1 import Precision

Made = TypeVar("Made")

# Of the forward pass; in other precisions it has the type of the weights.
AUTOCAST_DTYPES: Mapping[Precision, torch.dtype] = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


class Run(EpochRun):
    """One worker's side of a run; every method that says so is a collective of all ranks.

    Args:
        job: what to do.
        coordinator: of the run.
    """

    framework = "torch"
    asked_for_by = "trainshed.current()"

    def __init__(self, job: AttemptConfig, coordinator: Coordinator) -> None:
        super().__init__(job, coordinator)
        self.device: torch.device = ray.train.torch.get_device()
        self._prefetcher = DevicePrefetcher(streams_of(self.device))
        self._step = Step(self.world_size, job.spec.accumulate)
        self._has_skipped = False
        # As the step under way began; None while no other dataset is read beside the steps.
        self._random_before_step: torch.Tensor | None = None
        self._tracked: TrackedObjects | None = None
        self._profiler: StepProfiler | None = None
        if job.spec.profile is not None and not self.rank:
            from trainshed.worker.step_profiler import StepProfiler

            self._profiler = StepProfiler(job.spec.profile, job.folder, self.warn)

    def track(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        scheduler: Scheduler | None = None,
        **named: Stateful | Trained,
    ) -> None:
        """Name the objects to save, and load the checkpoint that this attempt resumes from.

        Args:
            model: may be wrapped by `ray.train.torch.prepare_model`, and by torch.compile.
            optimizer: stepped by `backward_step`.
            scheduler: stepped after each step of the optimizer.
            **named: a tuple (model, optimizer) or (model, optimizer, scheduler) for each of several
                models, whose weights are then in a file of that name; or anything else with
                state_dict and load_state_dict, such as an average of the weights, which must not be
                in FSDP. Without `model` the first tuple is the model that `evaluate` scores,
                `backward_step` trains by default and `describe_model` describes.

        Raises:
            UnsupportedWrapperError: for a model whose wrapper no checkpoint supports.
            RuntimeError: on a second call.
            ValueError: for a reserved name, for an object without a state or with two names, and
                for an optimizer without parameters of a tracked model.
            SpecError: if the checkpoint has other objects.
        """
        if self._tracked is not None:
            raise RuntimeError(
                "track: called a second time; expected one call. Name further objects in it by "
                "keyword, such as track(model, optimizer, average=average)"
            )
        trained, others = read_arguments(model, optimizer, scheduler, named)
        is_half = self._job.spec.precision == "float16"
        modules = [each.module for each in trained]
        scaler = make_scaler(modules, self.device.type, enabled=is_half)
        tracked = TrackedObjects(trained, others, scaler)
        self._tracked = self._loop.checkpoint_adapter = tracked
        for stepped in tracked.optimizers:
            stepped.register_step_post_hook(self._note_optimizer_step)
            if tracked.owner_of(stepped):
                stepped.register_step_pre_hook(lambda *_: self._step.check_last_part())
        said: dict[str, None] = {}
        for each in tracked.models:
            if self._job.spec.reproducible:
                sum_in_rank_order(each)
            if not tracked.trains(each):  # such as an average of the weights
                continue
            if self._job.spec.sync_batch_norm and (
                alone := share_statistics(each, self.world_size, self.device.type)
            ):
                said[alone] = None
            if lonely := trains_alone(each, self.world_size):
                said[lonely] = None
        for message in said:
            self.warn(message)
        with self._loop.phase_timer.inside(CHECKPOINTING):
            self._loop.saver.restore(tracked)

    @override
    def epochs(self) -> Iterator[int]:
        for epoch in super().epochs():
            yield epoch
            self._leave_step()

    @overload
    def batches(self, name: str) -> Iterator[Tensors]: ...
    @overload
    def batches(self, name: str, of: type[Made]) -> Iterator[Made]: ...
    def batches(self, name: str, of: type[object] | None = None) -> Iterator[object]:
        """Return the rest of a pass over a dataset in batches, on this worker's device.

        The batches of the dataset `train` (or else the first one) are the run's steps, each in
        `spec.accumulate` parts. For another dataset each call starts a pass. Only after a resume
        the first iterator continues the pass that was read beside the steps.

        Args:
            name: of the dataset.
            of: for type checkers: the type that the function of `feed.collate` returns instead of
                tensors by column. Without it any type is accepted.

        Raises:
            TypeError: if that function returns another type.
            StopTraining: if the run was asked to stop, between two steps.
        """
        if name == self._job.main_dataset:
            return self._steps(name, of or object)
        in_epochs = self.plain_function.epoch is not None
        return self._batches_beside_steps(name, of or object, in_epochs=in_epochs)

    def _steps(self, name: str, of: type[object]) -> Iterator[object]:
        """Yield the remaining steps of this epoch."""
        loop, feed = self._loop, self._feeds.feed(name)
        loop.begin_steps()
        at = self._feeds.passing(name, "train", loop.position)
        with loop.phase_timer.inside(WAITING):
            planned = self._waited_for(partial(feed.planned_steps, at))
        if planned:
            loop.steps_in_epoch = planned.count
        if planned and self._job.spec.epochs is not None:
            loop.board.steps = planned.count * self._job.spec.epochs
        if loop.has_last_step and self.step == loop.saver.position.step:
            self.warn(
                f"resumed after the last step of epoch {loop.position.epoch + 1}: "
                f"batches({name!r}) gives none in it. Set what the code after the loop reads "
                "before the loop"
            )
        batches = self._brought(name, at, self._while_waiting, self._job.spec.accumulate)
        if self._profiler:
            self._profiler.begin_step(self.step + 1)
        try:
            for batch in self._each_waited_for(loop.phase_timer.waiting_for(batches, name)):
                loop.dataset_positions.begin_step()
                if self._random_before_step is not None:
                    self._random_before_step = random_state()
                yield from self._parts(batch, of, counts=True)
                self._prefetcher.hold_back()
                loop.end_step(batch.total)
                if self._profiler:
                    self._profiler.end_step(self.step)
            loop.dataset_positions.begin_step()  # there is none left
        finally:
            batches.close()

    def _batches_beside_steps(
        self, name: str, of: type[object], *, in_epochs: bool
    ) -> Iterator[object]:
        """Yield the rest of a pass over a dataset that is not the main one."""
        loop, feed = self._loop, self._feeds.feed(name)
        reading = loop.dataset_positions.open(name, loop.position.epoch, in_epochs=in_epochs)
        at = self._feeds.passing_beside_steps(name, reading.start)
        if self._random_before_step is None:
            self._random_before_step = random_state()
        with loop.phase_timer.inside(WAITING):
            self._waited_for(partial(feed.planned_steps, at))
        batches = self._brought(name, at, self._while_waiting)
        taken = self._each_waited_for(loop.phase_timer.waiting_for(batches, name))
        counted = loop.dataset_positions.counted(reading, taken)
        try:
            for batch in counted:
                yield from self._parts(batch, of, counts=False)
                self._prefetcher.hold_back()
        finally:
            counted.close()
            batches.close()

    @override
    def _while_waiting(self) -> None:
        # A step that has changed the weights can neither be left out nor be repeated.
        if not self._step.is_in_weights:
            super()._while_waiting()

    @override
    def _stop_here(self) -> NoReturn:
        """Stop as after the last whole step: the next attempt repeats the one under way."""
        if self._step.is_under_way and self._random_before_step is not None:
            set_random_state(self._random_before_step)
        super()._stop_here()

    def _parts(self, batch: Batch, of: type[object], *, counts: bool) -> Iterator[object]:
        """Yield the parts of a batch; ranks synchronize only in the last part of a step."""
        most = self._job.spec.accumulate if counts else 1
        parts, tracked = list(parts_of(batch, most, self.world_size)), self._tracked
        done = number = 0
        try:
            for part in parts:
                is_last = done == len(parts) - 1
                with contextlib.nullcontext() if is_last or tracked is None else tracked.alone():
                    self._step.begin(part, counts=counts, is_last=is_last)
                    number = self._step.number
                    yield _checked(part.given, of)
                    self._step.end(counts=counts)
                if counts:
                    self._step.check_weights()
                done += 1
        finally:
            # The function broke the loop, maybe long ago if it kept the iterator.
            if done < len(parts) and counts and self._step.number == number:
                self._leave_step()
                if len(parts) > 1 and tracked:
                    tracked.forget_gradients()

    @override
    def finish(self, stopped: bool) -> None:
        self._leave_step()
        if self._profiler:
            self._profiler.finish(self.step, stopped=stopped)
        super().finish(stopped)

    def _leave_step(self) -> None:
        """End the step that the function left: it counts if the weights include it.

        Otherwise a resumed run repeats the whole step. The iterator of its batches may still be
        open.
        """
        is_done = self._step.is_in_weights
        self._step.leave()
        if is_done:
            self._loop.count_step(self._step.total)

    def _note_optimizer_step(self, *_: object) -> None:
        """Record that the weights have changed, by backward_step or by the function itself."""
        self._step.has_stepped = self._loop.saver.weights_changed = True

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """Compute the forward pass in the run's precision."""
        dtype = AUTOCAST_DTYPES.get(self._job.spec.precision)
        with torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None):
            yield

    def backward_step(
        self,
        loss: torch.Tensor,
        clip_norm: float | None = None,
        weight: float | torch.Tensor | None = None,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        """Run backward and, with the last part of a step, step the tracked optimizer and scheduler.

        Without `weight` the loss must be a mean over the given rows. With it, it must be a mean
        over that many tokens or pixels. Either way the step equals that of one worker with all
        rows.

        Args:
            loss: of the batch, or of its part.
            clip_norm: maximum norm of the step's gradients, which are scaled down to it; the norm
                is
                logged as `gradientNorm`. In float16 a step whose gradients overflow is skipped, and
                the mean of the norm is shown as null.
            weight: number of tokens that the loss is a mean over, such as `mask.sum()`; each worker
                passes its number, for each part of a step. It may be 0, and the loss then NaN; a
                step in which all are 0 is skipped. The call is then a collective.
            optimizer: the tracked optimizer that the loss is for; by default the first model's.
                Parameters of the others get no gradients from the loss then. In a step of several
                parts it needs a loss in each of them, or in none.

        Raises:
            RuntimeError: before `track(model, optimizer)`, for an `optimizer` with FSDP if steps
                are accumulated, and for an `optimizer` with losses in some parts of a step only.
            ValueError: for a `clip_norm` that is not positive, for a `weight` that is negative or
                not finite, or missing in some parts of a step, and for an `optimizer` that is not
                tracked.
        """
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"backward_step: got clip_norm={clip_norm}; expected more than 0")
        tracked = self._tracked
        if tracked is None or (stepped := optimizer or tracked.first.optimizer) is None:
            raise RuntimeError("backward_step needs track(model, optimizer) before")
        accumulate = self._job.spec.accumulate
        if optimizer and tracked.is_sharded and accumulate > 1:
            raise RuntimeError(
                f"spec.accumulate: got {accumulate} with a model in FSDP and a loss for "
                "one of several optimizers; expected 1, because FSDP keeps the gradients of the "
                "parts to itself. Leave accumulate out, or wrap the model in DDP."
            )
        name = tracked.name_of(stepped)
        watched, here = loss.detach(), None
        if weight is not None:
            here = as_weight(weight, loss)
            watched = torch.where(here == 0, 0, watched)  # a mean over nothing is NaN
        self._loop.watch_loss(watched)
        tracked.backward(self._step.weigh(loss, here, name), optimizer)
        if not self._step.is_last_part:
            return
        scale = self._step.gradient_scale(self.control, name)
        if scale is None:
            tracked.skip_step(stepped)
            if not self._has_skipped:
                self.warn(
                    f"step {self.step + 1} was skipped: backward_step got weight 0 on all workers; "
                    "later steps like it are skipped, too"
                )
            self._has_skipped = True
            return
        if scale != 1:
            tracked.scale_gradients(scale, stepped)
        if clip_norm is not None:
            self.log(**{tracked.norm_name(stepped): tracked.clip(clip_norm, stepped)})
        tracked.step(stepped)

    def log(self, **scalars: float | torch.Tensor) -> None:
        """Log scalars, without waiting for a device.

        Progress shows rank 0's means since the previous update, twice a second. A checkpoint has
        the
        means over all workers since the checkpoint before, and `checkpoint.best` compares those.
        Workers may log different names.

        Raises:
            ValueError: for a value that is not a single number.
        """
        for name, value in scalars.items():
            self._loop.board.logged.add(name, value, self.step + self._step.is_under_way)

    def evaluate(
        self, score: Score[Made], dataset: str = "valid", model: torch.nn.Module | None = None
    ) -> dict[str, float]:
        """Return exact means over all rows of a dataset, as `<dataset>.<name>`. A collective.

        Args:
            score: called as score(module, batch); returns by name a value for each row, shape
                (rows,), or (sum, count) of the batch for a mean over something else, such as
                tokens. Every batch has to return the same names. With FSDP a worker that finishes
                early repeats its last batch; the repeat is not counted.
            dataset: its name.
            model: to evaluate, such as an average of the weights; by default the first tracked
                model.

        Raises:
            RuntimeError: before `track(model)`.
            StopTraining: if the run was asked to stop, unless a step is in progress.
        """
        loop = self._loop
        if self._tracked is None:
            raise RuntimeError("evaluate needs track(model) before")
        module = unwrapped(model or self._tracked.first.module)
        random_before = random_state()
        meet = partial(meet_waiting, loop.control, self._may_cut)
        with loop.phase_timer.inside(EVALUATING):
            same_buffers(module)
            at = self._feeds.passing(dataset, "exact", loop.position)
            try:
                with (
                    contextlib.closing(self._brought(dataset, at, meet)) as fed,
                    evaluating(module),
                ):
                    seen = self._prefetcher.held_back(fed)
                    # The type of a collated batch is known to the user only.
                    there = ((cast("Made", batch.given), batch.rows) for batch in seen)
                    batches = (
                        in_step(there, loop.control, self._may_cut, partial(score, module))
                        if sharded(module)
                        else until_stopped(there, loop.control, self._may_cut)
                    )
                    with torch.no_grad(), self.autocast():
                        means = exact_means(batches, score, module, loop.control)
            except EvaluationStoppedError:
                # The next attempt repeats the evaluation from where this one started.
                set_random_state(random_before)
                loop.stop_here()
        metrics = {f"{dataset}.{name}": value for name, value in means.items()}
        # Inside a step the weights include it once backward_step was called.
        loop.measure(metrics, self.step + self._step.is_in_weights)
        evaluated = Evaluated(
            time=time.time(), epoch=loop.board.epoch, step=self.step, metrics={**metrics}
        )
        loop.say([evaluated])
        return metrics

    def _brought(
        self,
        name: str,
        at: EpochPass,
        while_waiting: Callable[[], None],
        most_parts: int = 1,
    ) -> Generator[Batch, None, None]:
        """Yield the batches of a pass on this worker's device."""
        fed = self._feeds.feed(name).batches(at, self._prefetcher.stage, most_parts)
        fed.while_waiting = while_waiting
        return self._prefetcher.carried(fed)

    def _may_cut(self) -> bool:
        """Say whether to stop here: in the middle of a step what follows it would be lost."""
        return self._loop.may_cut_evaluation and not self._step.is_under_way


def _checked(given: object, of: type[object]) -> object:
    if not isinstance(given, dict if is_typeddict(of) else get_origin(of) or of):
        raise TypeError(
            f"batches: got a {type(given).__name__} of feed.collate; expected a {of.__name__} as "
            "`of` says"
        )
    return given
