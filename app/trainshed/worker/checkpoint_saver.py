"""Writes a worker's checkpoints, and loads the one that it starts from."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import ray.train

from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.local_checkpoint import local_checkpoint
from trainshed.checkpoint.manifest import (
    Manifest,
    Position,
    Prediction,
    match_objects,
)
from trainshed.checkpoint.ray_snapshot import LINKED
from trainshed.checkpoint.state import (
    Buffers,
    objects_in,
    random_state,
    seed_everything,
    set_random_state,
)
from trainshed.checkpoint.store import Content, DamagedError
from trainshed.checkpoint.writer import Writer, WriteResult
from trainshed.coordinator.ray_reports import missing_best
from trainshed.data.sampler.permutation import ORDER
from trainshed.failures import InfrastructureError, classify
from trainshed.planning.class_labels import classes_of
from trainshed.storage.arrow_filesystem import as_ray_has_it
from trainshed_api.errors import Problem, SpecError
from trainshed_api.progress import CheckpointSaved, Event, WarningEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from trainshed.checkpoint.manifest import DatasetPosition
    from trainshed.checkpoint.model_file import CheckpointAdapter
    from trainshed.data.sampler.description import Described
    from trainshed.storage.folder import Folder
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.step_sync import Control

NONE, EARLIER, OWN = 0, 1, 2


class UnsavableStateError(TypeError):
    """A state that torch.save refuses; every checkpoint of the run would fail."""


class LastCheckpointError(OSError):
    """Training is done, but its result is not on storage."""


class CheckpointSaver:
    """Checkpoints of one worker; rank 0 writes, all ranks take part."""

    def __init__(self, job: AttemptConfig, control: Control, rank: int, world_size: int) -> None:
        self._job = job
        self._control = control
        self._rank = rank
        self.world_size = world_size
        self._buffers = Buffers()
        self._trust_objects = job.spec.checkpoint.trust_objects
        self._writer = Writer(job.checkpoints, trust_objects=self._trust_objects)
        self._registered = 0
        self._warned_of_grace = False
        self._blocked: dict[int, float] = {}
        # Of the checkpoint that was started last.
        self.last: Position | None = None
        # Whether an optimizer has stepped since the last checkpoint was started.
        self.weights_changed = False
        self.latest: tuple[str, int, int] | None = None
        self.describe_data: Callable[[], dict[str, Described]] = dict
        self.dataset_positions: Callable[[], dict[str, DatasetPosition]] = dict
        classes = classes_of(job.plans[job.main_dataset]) if job.main_dataset else ()
        self.prediction = Prediction(classes=tuple(classes), dataset=job.reading())
        self.start, self.manifest, self.refused = self._choose()

    @property
    def position(self) -> Position:
        """Return the position where training starts."""
        if self.manifest is None:
            return Position()
        return self.manifest.position

    @property
    def num_written(self) -> int:
        """Return how many checkpoints rank 0's writer has finished, or failed to write."""
        return len(self._writer.finished)

    def due(self, position: Position, epoch_ended: bool) -> bool:
        """Return whether a checkpoint is due."""
        spec = self._job.spec.checkpoint
        by_steps = bool(spec.every_steps and position.step % spec.every_steps == 0)
        if not epoch_ended:
            return by_steps
        is_last = position.epoch == self._job.spec.epochs and spec.is_written
        by_epochs = bool(spec.every_epochs and position.epoch % spec.every_epochs == 0)
        return is_last or by_epochs or by_steps

    def is_behind(self, position: Position) -> bool:
        """Return whether the run has trained further than its newest checkpoint."""
        return position != (self.last or self.position) or self.weights_changed

    def begin(
        self,
        tracked: CheckpointAdapter,
        position: Position,
        metrics: Mapping[str, float],
        scored: Collection[str],
        mark: Callable[[], None],
    ) -> None:
        """Copy the state and start to write it; a collective.

        Args:
            metrics: the last known ones.
            scored: names of those that belong to the current weights.
        """
        began = time.perf_counter()
        states = self._control.gather(random_state())
        self.last, self.weights_changed = position, False
        if self._rank:
            tracked.help_gather()
            return
        self._writer.wait_for_memory()
        models = self._buffers.copy(tracked.weights(), "models")
        state = self._buffers.copy({**tracked.state(), "random": states}, "state")
        data = self.describe_data()
        if checkpoint.hangs_on_order(tracked.model_file.name, position):
            # After a rollback an earlier release must not resume from this: its row order differs.
            data = {name: it.model_copy(update={"block_rows": None}) for name, it in data.items()}
        manifest = Manifest(
            order=min((plan.order for plan in self._job.plans.values()), default=ORDER),
            position=position,
            workers=self.world_size,
            spec_hash=self._job.spec_hash,
            attempt=self._job.attempt,
            metrics={name: value for name, value in metrics.items() if math.isfinite(value)},
            scored=frozenset(scored),
            data=data,
            objects=tracked.objects(),
            positions=self.dataset_positions(),
            shuffle={name: plan.spec.shuffle.mode for name, plan in self._job.plans.items()},
            buffer_rows={name: plan.shuffle_buffer_rows for name, plan in self._job.plans.items()},
            columns={name: dict(plan.column_types) for name, plan in self._job.plans.items()},
            prediction=self.prediction,
        )
        self._writer.begin(Content(tracked.model_file, models, state), manifest)
        self._blocked[position.step] = time.perf_counter() - began
        mark()

    def register(self, written: int) -> list[Event]:
        """Register the checkpoints that are on storage with Ray Train; a collective.

        Raises:
            UnsavableStateError: if the tracked objects cannot be written at all.
        """
        events: list[Event] = []
        while self._registered < written:
            self._registered += 1
            if self._rank:
                ray.train.report({})
                continue
            done = self._writer.finished[self._registered - 1]
            events.append(self._report(done))
            events += self._warn_of_grace(done)
        return events

    def _warn_of_grace(self, done: WriteResult) -> list[Event]:
        """Warn once, before a stop, that the grace period may be too short."""
        grace = self._job.spec.grace_period_seconds
        if self._warned_of_grace or done.folder is None or not done.is_too_slow_for(grace):
            return []
        self._warned_of_grace = True
        message = (
            f"a checkpoint took {done.put_seconds:.0f} s to reach the storage, and at a stop two "
            f"may be on their way, the older first: gracePeriodSeconds ({grace:g}) is too short"
        )
        return [WarningEvent(time=time.time(), message=message)]

    def wait(self) -> None:
        """Wait until nothing is being written."""
        self._writer.wait()

    @property
    def unsaved(self) -> str | None:
        """Return which checkpoint is missing on storage and why; None if the last one is there."""
        done = self._writer.finished
        if not done or not done[-1].error:
            return None
        return f"step {done[-1].manifest.position.step}: {done[-1].error}"

    def check_last(self) -> None:
        """Refuse to finish a run whose last checkpoint is missing.

        Raises:
            LastCheckpointError: with the reason.
            InfrastructureError: the same for a bucket.
        """
        if self.unsaved:
            why = self._writer.finished[-1].error
            said = f"training is done but its checkpoint is not: {self.unsaved}"
            if self._job.folder.path is None and isinstance(why, OSError):
                # Expired credentials are not the function's fault.
                raise InfrastructureError(said, classify(why) or "storage")
            raise LastCheckpointError(said)

    def restore(self, tracked: CheckpointAdapter) -> None:
        """Load the checkpoint that this group starts from, with its random state.

        Raises:
            DamagedError: if the run's spec names it, and its content is not what was written.
            SpecError: if it is another framework's, or has other objects than the tracked ones.
            InfrastructureError: if it is one of the run's own, which resumes from the one before,
                or if storage or disk fails.
        """
        if self.start is None or self.manifest is None:
            return
        source = self._given() if self.start == self._job.resume_from else self.start
        kind, held = tracked.model_file, checkpoint.model_name(self.manifest)
        if not kind.reads(held):
            expected = f"one with {kind.name}, of the framework of this run"
            raise SpecError(
                [Problem("spec.checkpoint.resume", f"{self.start} with {held}", expected)]
            )
        match = partial(
            match_objects,
            tracked=tracked.objects(),
            allowed=self._job.spec.checkpoint.allow_missing,
            source=str(self.start),
        )
        # Before anything is fetched, if the manifest has the names.
        names = match(self.manifest.objects) if self.manifest.objects is not None else None
        try:
            with local_checkpoint(source, self.manifest) as folder:
                saved = checkpoint.load(folder, kind, trust_objects=self._trust_objects)
        except DamagedError as error:
            raise self._passed_over(self.start, error) from error
        except OSError as error:  # also expired credentials: not the function's fault
            raise InfrastructureError(f"{source}: {error}", classify(error) or "storage") from error
        if names is None:
            names = match(objects_in(saved))
        tracked.load({name: saved[earlier] for name, earlier in names.items()})
        states = saved["random"]
        assert isinstance(states, Sequence)
        if self.manifest.workers == self.world_size:
            set_random_state(states[self._rank])
        else:  # random state fits one number of ranks only: a fresh one, still a pure function
            seed_everything(self._job.spec.seed + self.position.step, self._rank)

    def _passed_over(self, folder: Folder, error: DamagedError) -> Exception:
        """Return the error for a damaged checkpoint: it ends the group, the attempt or the run."""
        attempts = self._job.folder.parent
        if not folder.parent.parent.parent.is_same(attempts):
            return error  # the user named it, and it belongs to another run
        with contextlib.suppress(OSError):  # then it is chosen, and found damaged, once more
            checkpoint.pass_over(folder)
        # Only the next attempt chooses another checkpoint to start with.
        is_own = folder.parent.is_same(self._job.checkpoints)
        return InfrastructureError(str(error), "storage" if is_own else "damaged")

    def _report(self, done: WriteResult) -> Event:
        position = done.manifest.position
        if isinstance(done.error, OSError):  # a full disk may have space again
            ray.train.report({})
            why = f"{type(done.error).__name__}: {done.error}"
            message = f"no checkpoint at step {position.step}: {why}; training continues"
            return WarningEvent(time=time.time(), message=message)
        if isinstance(done.error, SpecError):
            raise done.error
        if done.folder is None:
            raise UnsavableStateError(f"what run.track names cannot be saved: {done.error}")
        filesystem = ray.train.get_context().get_storage().storage_filesystem
        ray.train.report(
            self._scored(done.manifest),
            checkpoint=ray.train.Checkpoint(as_ray_has_it(done.folder)[1], filesystem),
            checkpoint_upload_mode=ray.train.CheckpointUploadMode.NO_UPLOAD,
        )
        self.latest = (str(done.folder), position.epoch, position.step)
        return CheckpointSaved(
            time=time.time(),
            epoch=position.epoch,
            step=position.step,
            path=str(done.folder),
            blocked_seconds=self._blocked[position.step],
        )

    def _scored(self, manifest: Manifest) -> dict[str, float]:
        """Return the metrics, without the deciding one unless it is of these weights."""
        best, metrics = self._job.spec.checkpoint.best, dict(manifest.metrics)
        if best is not None and best.metric not in manifest.own_metrics():
            metrics.pop(best.metric, None)
        return metrics

    def _choose(self) -> tuple[Folder | None, Manifest | None, list[str]]:
        """Return the checkpoint to start from: rank 0 searches, all use the result."""
        found, refused = NONE, []
        folder: Folder | None = None
        manifest: Manifest | None = None
        if self._rank == 0:
            folder, manifest, refused = checkpoint.newest([self._job.checkpoints])
            found = OWN if folder else EARLIER if self._job.resume_from else NONE
        found = self._control.from_leader(found)
        if found == NONE:
            return None, None, refused
        if found == EARLIER:
            assert self._job.resume_from
            return self._job.resume_from, checkpoint.verify(self._given()), refused
        leaders = manifest.position if manifest else Position()
        # The whole position: two checkpoints of one step differ at the end of an epoch.
        shared = {name: self._control.from_leader(count) for name, count in leaders}
        if folder is None or manifest is None:
            folder, manifest = checkpoint.find(self._job.checkpoints, Position(**shared))
        return folder, manifest, refused

    def _given(self) -> Folder:
        """Return the path of the checkpoint that the attempt was given to start from."""
        # Its owner may delete it during the attempt; this attempt has its own links to it.
        linked = self._job.checkpoints / LINKED
        assert self._job.resume_from
        return linked if linked.exists() else self._job.resume_from


def check_best_metric(job: AttemptConfig, metrics: Mapping[str, float]) -> None:
    """Refuse a `checkpoint.best` that is never reported.

    Raises:
        SpecError: naming the metrics that are reported.
    """
    best = job.spec.checkpoint.best
    if best and (problem := missing_best(best, metrics)):
        raise SpecError([problem])
