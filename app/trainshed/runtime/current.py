"""The run as a training function sees it: `trainshed.current()`."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import ray.train.torch
import torch

from trainshed.data.batches import Batch, Feed
from trainshed.data.blocks import FedBlocks, OwnBlocks
from trainshed.data.schedule import Kind, Pass, split_for
from trainshed.runtime.checkpoint import Position
from trainshed.runtime.control import Agreement, Control, Proposal, next_agreement
from trainshed.runtime.evaluation import Score, Tensors, exact_means, same_buffers
from trainshed.runtime.examples import keep_examples
from trainshed.runtime.hub import Ending
from trainshed.runtime.meter import CHECKPOINTING, EVALUATING, WAITING, Meter
from trainshed.runtime.pace import Pace
from trainshed.runtime.reporter import Reporter, Scoreboard
from trainshed.runtime.reproducible import sum_in_rank_order
from trainshed.runtime.saver import Saver, Tracked, check_best_metric
from trainshed.runtime.state import Stateful, unwrapped
from trainshed_api.progress import Evaluated, Event, ResumePoint, Started, WarningEvent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from ray.actor import ActorHandle

    from trainshed.runtime.job import Job

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
_active: Run | None = None


class StopTraining(BaseException):
    """Raised in a training function when the run was asked to stop and its checkpoint is on the way."""


class NonFiniteLossError(ArithmeticError):
    """The loss is NaN or infinite; the message names the step."""


def active() -> Run:
    """Return the run of this worker.

    Raises:
        RuntimeError: outside a training function that Trainshed started.
    """
    if _active is None:
        raise RuntimeError(
            "trainshed.current() works inside a training function that `trainshed run` started"
        )
    return _active


class Run:
    """One worker's side of a run; every method that says so is a collective of all ranks.

    Args:
        job: what to do.
        coordinator: of the run.
    """

    def __init__(self, job: Job, coordinator: ActorHandle) -> None:
        context = ray.train.get_context()
        self.rank: int = context.get_world_rank()
        self.world_size: int = context.get_world_size()
        self.device: torch.device = ray.train.torch.get_device()
        self._job = job
        self._coordinator = coordinator
        self._control = Control()
        self._saver = Saver(job, self._control, self.rank, self.world_size)
        self._position = self._saver.position
        group = ray.get(coordinator.join.remote(self._position.step)) if self.rank == 0 else 0
        self._group = self._control.from_leader(group)
        self._meter = Meter()
        self._pace = Pace()
        self._board = Scoreboard(job.epochs, epoch=self._position.epoch + 1)
        self._board.step = self._position.step
        self._metrics: dict[str, float] = dict(
            self._saver.manifest.metrics if self._saver.manifest else {}
        )
        self._feeds: dict[str, Feed] = {}
        self._tracked: Tracked | None = None
        self._batch: Batch | None = None
        self._stepped = True
        self._losses: list[tuple[int, torch.Tensor]] = []
        self._next_agreement = self._position.step + 1
        self._say([WarningEvent(time=time.time(), message=line) for line in self._saver.refused])
        self._reporter = Reporter(coordinator, self._group, self._board) if self.rank == 0 else None

    # ------------------------------------------------------------------ what users call

    @property
    def step(self) -> int:
        """Return the number of steps that are done, those of earlier attempts included."""
        return self._position.step

    @property
    def datasets(self) -> tuple[str, ...]:
        """Return the names of the spec's datasets."""
        return tuple(self._job.plans)

    def track(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        scheduler: Stateful | None = None,
        **others: Stateful,
    ) -> None:
        """Name what must survive, and load the checkpoint that this attempt goes on from.

        Args:
            model: may be wrapped by `ray.train.torch.prepare_model`.
            optimizer: stepped by `backward_step`.
            scheduler: stepped after each step of the optimizer.
            **others: anything with state_dict and load_state_dict.
        """
        scaler = torch.amp.GradScaler(self.device.type, enabled=self._job.precision == "float16")
        self._tracked = Tracked(model, optimizer, scheduler, others, scaler)
        if self._job.reproducible:
            sum_in_rank_order(model)
        if self.world_size > 1 and unwrapped(model) is model:
            self._warn(
                f"{type(model).__name__} is not wrapped for {self.world_size} workers: each trains "
                "alone; pass it through ray.train.torch.prepare_model first"
            )
        with self._meter.inside(CHECKPOINTING):
            self._saver.restore(self._tracked)

    def epochs(self) -> Iterator[int]:
        """Yield the epochs that are left, from 0; writes checkpoints between them. A collective.

        Raises:
            RuntimeError: when the spec has no `epochs`.
        """
        if self._job.epochs is None:
            raise RuntimeError("spec.epochs is not set, so epochs() cannot count; set it")
        for epoch in range(self._position.epoch, self._job.epochs):
            self._board.epoch = epoch + 1
            yield epoch
            self._position = Position(epoch + 1, 0, self._position.step)
            check_best_metric(self._job, self._metrics)
            self._boundary(epoch_ended=True)

    def batches(self, name: str) -> Iterator[Tensors]:
        """Yield what is left of this epoch's batches of a dataset, on this worker's device.

        The batches of the dataset `train` (or else the first one) are the run's steps.
        """
        steps = name == self._job.main_dataset
        first = self._position.step_in_epoch if steps else 0
        at = self._pass(name, "train", first)
        feed = self._feed(name)
        if steps:
            self._count_steps(feed, at)
        batches = feed.batches(at)
        try:
            while True:
                with self._meter.inside(WAITING):
                    batch = next(batches, None)
                    tensors = self._on_device(batch) if batch else {}
                if batch is None:
                    return
                self._batch = batch
                yield tensors
                if steps:
                    self._after_step(batch)
        finally:
            batches.close()

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """Compute the forward pass in the run's precision."""
        dtype = DTYPES.get(self._job.precision)
        with torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None):
            yield

    def backward_step(self, loss: torch.Tensor) -> None:
        """Go backward and make one step of the tracked optimizer and scheduler.

        The loss must be a mean over this rank's rows: it is weighted so that the step equals that of
        one worker with all rows.

        Raises:
            RuntimeError: before `track(model, optimizer)`.
        """
        if self._tracked is None or self._tracked.optimizer is None:
            raise RuntimeError("backward_step needs track(model, optimizer) before")
        tracked, optimizer = self._tracked, self._tracked.optimizer
        self._losses.append((self._position.step + 1, loss.detach()))
        tracked.scaler.scale(loss * self._weight()).backward()
        tracked.scaler.step(optimizer)
        tracked.scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if tracked.scheduler is not None:
            tracked.scheduler.step()  # type: ignore[attr-defined]  # every scheduler has it
        self._stepped = True

    def log(self, **scalars: float | torch.Tensor) -> None:
        """Show scalars as progress: means since the last look, of rank 0. Never waits for a device."""
        if self.rank:
            return
        with self._board.lock:
            for name, value in scalars.items():
                tensor = value.detach() if isinstance(value, torch.Tensor) else torch.tensor(value)
                self._board.logged.setdefault(name, []).append(tensor)

    def evaluate(self, score: Score, dataset: str = "valid") -> dict[str, float]:
        """Return exact means over all rows of a dataset, as `<dataset>.<name>`. A collective.

        Args:
            score: called as score(module, batch); gives a value for each row, shape (rows,).
            dataset: its name.

        Raises:
            RuntimeError: before `track(model)`.
        """
        if self._tracked is None:
            raise RuntimeError("evaluate needs track(model) before")
        module = unwrapped(self._tracked.model)
        was_training = module.training
        with self._meter.inside(EVALUATING):
            same_buffers(module)
            module.eval()
            at = self._pass(dataset, "exact", 0)
            batches = ((self._on_device(b), b.rows) for b in self._feed(dataset).batches(at))
            with torch.no_grad(), self.autocast():
                means = exact_means(batches, score, module, self._control)
            module.train(was_training)
        metrics = {f"{dataset}.{name}": value for name, value in means.items()}
        self._metrics.update(metrics)
        epoch = min(self._position.epoch + 1, self._job.epochs or 2**31)
        self._say(
            [Evaluated(time=time.time(), epoch=epoch, step=self._position.step, metrics=metrics)]
        )
        return metrics

    def show(
        self,
        name: str,
        images: NDArray[np.uint8],
        captions: Sequence[str],
        good: Sequence[bool] | None = None,
    ) -> None:
        """Keep pictures for the report.

        Args:
            name: of the group.
            images: (n, height, width) or (n, height, width, 3).
            captions: one a picture.
            good: whether each is as it should be.
        """
        if self.rank == 0:
            keep_examples(self._job.folder / "examples", name, images, captions, good)

    # ------------------------------------------------------------------ steps and boundaries

    def _after_step(self, batch: Batch) -> None:
        position = self._position
        self._position = Position(position.epoch, position.step_in_epoch + 1, position.step + 1)
        if not self._stepped and batch.total % self.world_size:
            raise RuntimeError(
                f"spec.batchSize: {batch.total} rows do not split evenly over {self.world_size} "
                "workers; use backward_step, which weighs them, or an even batch size"
            )
        self._stepped = False
        self._pace.step(batch.total)
        self._board.step = self._position.step
        self._boundary(epoch_ended=False)

    def _boundary(self, epoch_ended: bool) -> None:
        """Agree, write and stop where it is due; the same steps on all ranks."""
        due = self._saver.due(self._position, epoch_ended)
        if not (due or epoch_ended or self._position.step >= self._next_agreement):
            return
        agreed = self._agree()
        if agreed.bad_step is not None:
            raise NonFiniteLossError(f"the loss is NaN or infinite at step {agreed.bad_step}")
        if due or (agreed.stop and self._job.writes_checkpoints):
            with self._meter.inside(CHECKPOINTING):
                self._saver.begin(self._tracked, self._position, self._metrics, self._mark)
        if agreed.written:
            with self._meter.inside(CHECKPOINTING):
                self._say(self._saver.register(agreed.written))
        if agreed.stop:
            raise StopTraining

    def _agree(self) -> Agreement:
        pace = self._pace.seconds_per_step()
        agreed = self._control.agree(
            Proposal(
                next_step=next_agreement(self._position.step, pace),
                stop=bool(self._reporter and self._reporter.stop_reason),
                written=self._saver.num_written,
                seconds=self._meter.seconds(),
                bad_step=self._bad_step(),
            )
        )
        self._next_agreement = agreed.next_step
        board = self._board
        board.seconds = agreed.seconds
        board.rate = self._pace.rows_per_second()
        loop = agreed.seconds["training"] + agreed.seconds[WAITING]
        board.data_wait_percent = 100 * agreed.seconds[WAITING] / loop if loop > 0 else None
        if board.steps:
            board.eta_seconds = max(0, board.steps - board.step) * pace
        return agreed

    def _bad_step(self) -> int | None:
        losses, self._losses = self._losses, []
        if not losses:
            return None
        # finite has shape (steps since the last look,)
        finite = torch.isfinite(torch.stack([loss.float() for _, loss in losses])).tolist()
        return next(
            (step for (step, _), fine in zip(losses, finite, strict=True) if not fine), None
        )

    def _weight(self) -> float:
        batch = self._batch
        if batch is None or batch.rows * self.world_size == batch.total:
            return 1.0
        return batch.rows * self.world_size / batch.total

    # ------------------------------------------------------------------ beginning and end

    def announce(self) -> None:
        """Say that training begins, from where, and on how many rows as far as is known."""
        plans = self._job.plans.items()
        started = Started(
            time=time.time(),
            run=self._job.name,
            attempt=self._job.attempt,
            workers=self.world_size,
            rows={name: plan.rows for name, plan in plans if plan.rows is not None},
            epochs=self._job.epochs,
            steps=self._planned_steps(),
            folder=str(self._job.folder.parent.parent),
            resumed_from=self.resume_point,
        )
        self._say([started])

    def finish(self, stopped: bool) -> None:
        """Wait for the last checkpoint, register it and say how it ended. A collective."""
        with self._meter.inside(CHECKPOINTING):
            self._saver.wait()
            self._agree()
            agreed = self._agree()
            self._say(self._saver.register(agreed.written))
        if self._reporter is None:
            return
        seconds = self._meter.seconds()
        self._board.seconds = seconds
        self._reporter.close()
        ending = Ending(
            stopped=stopped,
            epoch=self._position.epoch,
            step=self._position.step,
            metrics={**self._board.means, **self._metrics},
            rate=self._board.rate,
            data_wait_percent=self._board.data_wait_percent,
            checkpoint=self._saver.latest,
        )
        ray.get(self._coordinator.leave.remote(self._group, seconds, ending))

    # ------------------------------------------------------------------ pieces

    @property
    def resume_point(self) -> ResumePoint | None:
        """Return the checkpoint that this group started from."""
        if self._saver.start is None:
            return None
        position = self._saver.position
        return ResumePoint(
            checkpoint=str(self._saver.start), epoch=position.epoch, step=position.step
        )

    def _pass(self, name: str, kind: Kind, first_step: int) -> Pass:
        return Pass(
            dataset=name,
            kind=kind,
            epoch=self._position.epoch,
            first_step=first_step,
            num_ranks=self.world_size,
            batch_size=self._job.batch_size,
            seed=self._job.seed,
            group=self._group,
        )

    def _feed(self, name: str) -> Feed:
        if name not in self._feeds:
            if name not in self._job.plans:
                known = ", ".join(self._job.plans) or "none"
                raise KeyError(f"no dataset {name!r} in spec.data.datasets; it has: {known}")
            plan = self._job.plans[name]
            own = plan.loader == "torch"
            blocks = OwnBlocks(plan) if own else FedBlocks(plan, self._coordinator, self.rank)
            self._feeds[name] = Feed(plan, blocks, self.rank)
        return self._feeds[name]

    def _planned_steps(self) -> int | None:
        """Return the steps of the whole run where the files' rows tell."""
        name = self._job.main_dataset
        if self._job.epochs is None or name is None:
            return None
        plan = self._job.plans[name]
        if plan.rows is None:
            return None
        return split_for(plan, self._pass(name, "train", 0), plan.rows).steps * self._job.epochs

    def _count_steps(self, feed: Feed, at: Pass) -> None:
        if self._job.epochs is not None and self._board.steps is None:
            with self._meter.inside(WAITING):
                self._board.steps = feed.split(at).steps * self._job.epochs

    def _on_device(self, batch: Batch) -> Tensors:
        if self.device.type == "cpu":
            return batch.tensors
        return {
            name: tensor.pin_memory().to(self.device, non_blocking=True)
            for name, tensor in batch.tensors.items()
        }

    def _mark(self) -> None:
        seconds = self._meter.seconds()
        self._coordinator.mark.remote(self._group, self._position.step, time.time(), seconds)

    def _say(self, events: Sequence[Event]) -> None:
        if self.rank == 0:
            with self._board.lock:
                self._board.events.extend(events)

    def _warn(self, message: str) -> None:
        self._say([WarningEvent(time=time.time(), message=message)])


def activate(run: Run | None) -> None:
    """Make a run the one that `trainshed.current()` returns in this process."""
    global _active
    _active = run
