"""The position of a worker's training, and what is due between two steps."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, NoReturn

from trainshed.checkpoint.manifest import Position
from trainshed.coordinator.run_state import Failure, FunctionResult
from trainshed.worker.checkpoint_saver import CheckpointSaver, check_best_metric
from trainshed.worker.dataset_positions import DatasetPositions
from trainshed.worker.device_reads import Losses
from trainshed.worker.phase_timer import CHECKPOINTING, WAITING, PhaseTimer, ThroughputMeter
from trainshed.worker.reporter import Reporter, Scoreboard
from trainshed.worker.step_sync import Control, Proposal, StepSync, next_agreement
from trainshed.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from trainshed.checkpoint.model_file import CheckpointAdapter
    from trainshed.coordinator.actor import Coordinator
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed_api.progress import Event


# After the last step of an epoch an evaluation may go on for so long before a stop cuts it.
EPOCH_END_SECONDS = 5.0


class StopTraining(BaseException):
    """Raised in a training function when the run was asked to stop and its checkpoint has begun."""


class NonFiniteLossError(ArithmeticError):
    """The loss is NaN or infinite; the message names the step."""


class TrainingLoop:
    """Counts steps; between them agrees, writes checkpoints and stops, on all ranks alike.

    Args:
        job: what to do.
        coordinator: of the run.
        rank: this worker.
        world_size: number of workers.
    """

    def __init__(
        self, job: AttemptConfig, coordinator: Coordinator, rank: int, world_size: int
    ) -> None:
        self.job = job
        self.control = Control()
        self.saver = CheckpointSaver(job, self.control, rank, world_size)
        self.position = self.saver.position
        # Steps of the epoch under way, where they are known before its end.
        self.steps_in_epoch: int | None = None
        self.dataset_positions = DatasetPositions({})
        self.saver.dataset_positions = lambda: self.dataset_positions.settled
        self._coordinator = coordinator
        self._is_waiting = False
        group = coordinator.join(self.position.step) if rank == 0 else 0
        self.group = self.control.from_leader(group)
        self.phase_timer = PhaseTimer()
        self._throughput = ThroughputMeter()
        self.board = Scoreboard(
            job.spec.epochs, epoch=self.position.epoch + 1, step=self.position.step
        )
        self.metrics = dict(self.saver.manifest.metrics if self.saver.manifest else {})
        # The step at which each was measured here; earlier measurements are of other weights.
        self._measured: dict[str, int] = {}
        # Events for the end of a run that succeeds.
        self.note = ""
        self.checkpoint_adapter: CheckpointAdapter | None = None
        self._losses = Losses()
        self._stalls = Watchdog(
            job.spec.first_step_deadline_seconds, job.spec.stall_deadline_seconds
        )
        self._next_agreement = self.position.step + 1
        self._reporter = Reporter(coordinator, self.group, self.board) if rank == 0 else None

    def say(self, events: Sequence[Event], *, at_once: bool = False) -> None:
        """Pass events to the reporter; only rank 0's are sent.

        at_once: send them now, as what follows may end this worker before the reporter's turn.
        """
        if self._reporter:
            with self.board.lock:
                self.board.events.extend(events)
            if at_once:
                self._reporter.send()

    def measure(self, metrics: Mapping[str, float], at_step: int) -> None:
        """Record the scores of the current weights."""
        self.metrics.update(metrics)
        self._measured.update(dict.fromkeys(metrics, at_step))

    def watch_loss(self, loss: torch.Tensor) -> None:
        """Record the loss of the current step; ranks check it when they agree.

        A loss on a device is known at the next agreement, or before anything is written.
        """
        self._losses.add(self.position.step + 1, loss)

    def begin_steps(self) -> None:
        """Report that the function requests steps: from here the first one is expected."""
        self._stalls.begin()
        self.board.steps_begun = True

    def end_step(self, rows: int) -> None:
        """Count a step with this many rows over all ranks. Sometimes a collective.

        After the last step of an epoch nothing is written and no stop takes effect until the epoch
        ends. A run that resumed in between would enter its epoch without any batch.

        Raises:
            StopTraining: if the run was asked to stop.
            NonFiniteLossError: if a rank's loss was NaN or infinite.
        """
        self.count_step(rows)
        if not self.has_last_step:
            self._boundary(epoch_ended=False)

    def count_step(self, rows: int) -> None:
        """Count a step as `end_step` does, where ranks cannot agree: the function left its loop."""
        position = self.position
        counted = {"step_in_epoch": position.step_in_epoch + 1, "step": position.step + 1}
        self.position = position.model_copy(update=counted)
        self.dataset_positions.end_step()
        self._throughput.step(rows)
        self._stalls.step()
        self.board.step = self.position.step

    def end_epoch(self) -> None:
        """Count an epoch. A collective.

        Raises:
            SpecError: if the metric of `checkpoint.best` is never reported.
            StopTraining: if the run was asked to stop.
            NonFiniteLossError: if a rank's loss was NaN or infinite.
        """
        self.position = Position(epoch=self.position.epoch + 1, step=self.position.step)
        self.steps_in_epoch = None
        self.dataset_positions.end_epoch()
        self._boundary(epoch_ended=True)

    def check_best(self) -> None:
        """Check that the metric of the best checkpoint is reported, on rank 0.

        Raises:
            SpecError: if it is not.
        """
        if self._reporter and self.job.spec.checkpoint.best:
            self.board.logged.flush()
            check_best_metric(self.job, self._reported())

    def stops_waiting(self, *, evaluates: bool = False) -> bool:
        """Report that this rank waits for rows, and return whether all ranks stop here.

        They do once the run was asked to stop and all ranks wait after the same step. Where others
        are inside a collective, which waits for this rank, all go on. `stops_after_wait` has to
        follow.

        Args:
            evaluates: whether the rows are those of an evaluation.
        """
        if self.has_last_step and not evaluates:  # the epoch ends next
            return False
        self._is_waiting = True
        step, ranks = self.position.step, self.saver.world_size
        return self._coordinator.wait(self.group, self.control.rank, step, ranks)

    def stops_after_wait(self) -> bool:
        """Report that this rank has its rows, and return whether all ranks stop here anyway.

        That was decided while this one waited.
        """
        was_waiting, self._is_waiting = self._is_waiting, False
        return was_waiting and self._coordinator.go_on(self.group, self.control.rank)

    @property
    def has_last_step(self) -> bool:
        """Say whether the last step of the epoch under way is done."""
        return self.steps_in_epoch is not None and (
            self.position.step_in_epoch >= self.steps_in_epoch
        )

    @property
    def may_cut_evaluation(self) -> bool:
        """Say whether rank 0 stops in an evaluation; False on all others.

        One after an epoch's last step may end first, if that takes a few seconds.
        """
        if not self._reporter or not self._reporter.stop_reason:
            return False
        put_off = min(EPOCH_END_SECONDS, self.job.spec.grace_period_seconds / 2)
        return not self.has_last_step or self._reporter.seconds_since_stop() >= put_off

    @property
    def wants_stop(self) -> bool:
        """Return whether rank 0 received a stop; False on all others."""
        return bool(self._reporter and self._reporter.stop_reason)

    def stop_here(self) -> NoReturn:
        """Write a checkpoint of the finished steps, if any, and stop. A collective.

        Between two steps.

        Raises:
            StopTraining: always.
            NonFiniteLossError: if a rank's loss was NaN or infinite.
        """
        has_trained = self.position != self.saver.position
        self._save_last(has_trained and self.job.spec.checkpoint.is_written)
        raise StopTraining

    def fail(self, failure: Failure) -> None:
        """Report that the training function raised, and this worker's times until then."""
        if self._reporter:
            with contextlib.suppress(RuntimeError):  # of a device that the failure broke
                self._reporter.close()
        self._stalls.close()
        self._coordinator.fail(self.group, self.phase_timer.seconds(), failure)

    def finish(self, stopped: bool) -> None:
        """Wait for the last checkpoint, register it and report the end. A collective.

        Raises:
            NonFiniteLossError: if a rank's loss was NaN or infinite.
            LastCheckpointError: if training is done but its result is not on storage.
        """
        if not stopped:
            # Whether the function trained further than its last checkpoint.
            is_behind = self.job.spec.checkpoint.is_written and self.saver.is_behind(self.position)
            if self.control.from_leader(int(is_behind)):
                self._save_last(True)
        with self.phase_timer.inside(CHECKPOINTING):
            self.saver.wait()
            agreed = self._agree(knows_losses=True)
            self._register(agreed.written)
        self._stalls.close()
        if not stopped:
            _check_losses(agreed)
        if self._reporter is None:
            return
        if not stopped:
            self.saver.check_last()
        seconds = self.phase_timer.seconds()
        self.board.seconds = seconds
        self._reporter.close()
        ending = FunctionResult(
            stopped=stopped,
            epoch=self.position.epoch,
            step=self.position.step,
            metrics=self._reported(),
            rate=self.board.rate,
            data_wait_percent=self.board.data_wait_percent,
            checkpoint=self.saver.latest,
            unsaved=self.saver.unsaved if stopped else None,
            note=self.note,
        )
        self._coordinator.leave(self.group, seconds, ending)

    def _save_last(self, is_due: bool) -> None:
        """Write the attempt's last checkpoint, if it is due, once all losses are known.

        Raises:
            NonFiniteLossError: if a rank's loss was NaN or infinite.
        """
        agreed = self._agree(knows_losses=True)
        _check_losses(agreed)
        self._save_if(is_due)
        self._register(agreed.written)

    def _boundary(self, epoch_ended: bool) -> None:
        due = self.saver.due(self.position, epoch_ended)
        if not (due or epoch_ended or self.position.step >= self._next_agreement):
            return
        agreed = self._agree(knows_losses=due)
        if not due and (agreed.stop or agreed.bad_step is not None):
            # Before the last checkpoint is written, or another rank's first bad step is missed.
            agreed = self._agree(knows_losses=True)
        _check_losses(agreed)
        self._save_if(
            due or (agreed.stop and self.job.spec.checkpoint.is_written), epoch_ended=epoch_ended
        )
        self._register(agreed.written)
        if agreed.stop:
            raise StopTraining

    def _save_if(self, is_due: bool, *, epoch_ended: bool = False) -> None:
        is_new = self.saver.last != self.position or self.saver.weights_changed
        checkpoint_adapter = self.checkpoint_adapter if is_due and is_new else None
        with self.phase_timer.inside(CHECKPOINTING):
            if checkpoint_adapter is not None:
                means, steps = self.board.logged.means_of_ranks(self.control)
                self.metrics.update(means)
                self._measured.update(steps)
            if epoch_ended:
                self.check_best()
            if checkpoint_adapter is not None:
                scored = [n for n, step in self._measured.items() if step == self.position.step]
                self.saver.begin(
                    checkpoint_adapter, self.position, self.metrics, scored, self._mark
                )

    def _reported(self) -> dict[str, float]:
        """Return the last known metrics; those since the last checkpoint are rank 0's only."""
        return {**self.board.logged.means(), **self.metrics}

    def _register(self, written: int) -> None:
        with self.phase_timer.inside(CHECKPOINTING):
            self.say(self.saver.register(written))

    def _agree(self, *, knows_losses: bool) -> StepSync:
        """Agree with all ranks; knows_losses: wait for losses that are not known yet."""
        agreed = self.control.agree(
            Proposal(
                next_step=next_agreement(self.position.step, self._throughput.seconds_per_step()),
                stop=self.wants_stop,
                written=self.saver.num_written,
                seconds=self.phase_timer.seconds(),
                bad_step=self._losses.first_bad(waits=knows_losses),
            )
        )
        self._next_agreement = agreed.next_step
        board = self.board
        board.seconds = agreed.seconds
        board.saves = self.checkpoint_adapter is not None and self.job.spec.checkpoint.is_written
        board.rate = self._throughput.rows_per_second()
        loop = agreed.seconds["training"] + agreed.seconds[WAITING]
        board.data_wait_percent = 100 * agreed.seconds[WAITING] / loop if loop > 0 else None
        if board.steps:
            board.eta_seconds = self._throughput.seconds_left(board.steps - board.step)
        return agreed

    def _mark(self) -> None:
        seconds = self.phase_timer.seconds()
        self._coordinator.mark(self.group, self.position.step, time.time(), seconds)


def _check_losses(agreed: StepSync) -> None:
    if agreed.bad_step is not None:
        raise NonFiniteLossError(f"the loss is NaN or infinite at step {agreed.bad_step}")
