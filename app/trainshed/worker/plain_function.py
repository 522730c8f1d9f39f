"""The run of a function with its own loop: dataset shards, its checkpoint, one warning."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import ray.train

from trainshed.checkpoint import pass_counter, ray_snapshot
from trainshed.checkpoint.pass_counter import Passes
from trainshed.checkpoint.store import is_ours
from trainshed.data.loader.arrow_blocks import to_block
from trainshed.data.sampler.stage_time import WAIT, Spent, StageKey
from trainshed.data.sources.stage_timer import STAGE_TIMER
from trainshed.planning.ignored_fields import warning_for_loops, warning_for_shards
from trainshed.ray_compat.checkpoint_reads import CheckpointReads
from trainshed.ray_compat.data_iterator import IteratorFacts, PlannedShard
from trainshed.worker.phase_timer import WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ray.data.block import Block

    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.sampler.epoch_pass import EpochPass
    from trainshed.storage.folder import Folder
    from trainshed.worker.attempt_config import AttemptConfig
    from trainshed.worker.dataset_registry import DatasetRegistry
    from trainshed_api.progress import ResumePoint


class PlainFunction:
    """The parts of a run that a function uses without `trainshed.current()`.

    Args:
        job: what to do.
        coordinator: of the run.
        feeds: this worker's.
        warn: says something to the user.
    """

    def __init__(
        self,
        job: AttemptConfig,
        coordinator: Coordinator,
        feeds: DatasetRegistry,
        warn: Callable[[str], None],
    ) -> None:
        self._job = job
        self._coordinator = coordinator
        self._feeds = feeds
        self._warn = warn
        self._shards: dict[str, PlannedShard] = {}
        # The user's checkpoint that this worker group starts from.
        self.checkpoint = _users_checkpoint(job)
        self.passes = Passes(pass_counter.read(self.checkpoint) if self.checkpoint else {})
        # None without a checkpoint to read, and once it is settled whether the function resumed.
        self._reads = None if self.checkpoint is None else CheckpointReads()
        self.asked_for_run = False
        # Set while `trainshed.current().epochs()` counts: the number of every shard's next pass.
        self.epoch: int | None = None

    @property
    def resume_point(self) -> ResumePoint | None:
        """Return the user's checkpoint that this worker group starts from."""
        if self.checkpoint is None:
            return None
        return ray_snapshot.reported_at(self.checkpoint).resume_point

    def shard(self, name: str) -> PlannedShard:
        """Return this worker's share of a dataset; warns once about ignored fields.

        Raises:
            KeyError: if the spec has no such dataset.
        """
        if name not in self._shards:
            feed = self._feeds.feed(name)

            def begin() -> EpochPass:
                number = self.passes.begin(name) if self.epoch is None else self.epoch
                return self._feeds.sharing(name, number)

            def end(waited: float) -> None:
                if self.epoch is None:
                    self.passes.end(name)
                STAGE_TIMER.add({StageKey(name, WAIT): Spent(waited)})
                if self._feeds.rank == 0:
                    self._coordinator.hold(WAITING, waited)

            def blocks() -> Iterator[Block]:
                tables = feed.columns(begin(), feed.plan.block_rows)
                return (to_block(columns) for columns in tables)

            first, source = not self._shards, feed.plan.source
            facts = IteratorFacts(
                name, f"{name}: cache {feed.plan.cache}", source.schema if source else None
            )
            self._shards[name] = PlannedShard(facts, self._feeds.world_size, blocks, end)
            message = warning_for_shards(self._job.spec, self.asked_for_run)
            if first and message and self._feeds.group == 1:
                self._warn(message)
        return self._shards[name]

    def settle_resume(self) -> None:
        """Withdraw the report of a resume if the function did not read its checkpoint.

        Must run before the function's first report: later it reads its own checkpoints. Rank 0
        decides, which may load for all.
        """
        reads, self._reads = self._reads, None
        if self._feeds.rank == 0 and reads and not reads.any:
            self._coordinator.start_over()

    def finish(self, *, took_batches: bool) -> None:
        """Warn about what a function that returned did not do: resume, or use fields.

        Args:
            took_batches: whether it took batches of the run, in this attempt or an earlier one.
        """
        self.settle_resume()
        if self._shards or (self.asked_for_run and took_batches):
            return
        message = warning_for_loops(self._job.spec, self.asked_for_run)
        if message:
            self._warn(message)


def _users_checkpoint(job: AttemptConfig) -> Folder | None:
    """Return what `ray.train.get_checkpoint()` returns, by the name that it was written under."""
    checkpoint = ray.train.get_checkpoint()
    name = PurePath(checkpoint.path).name if checkpoint else None
    if name is None or is_ours(name):
        return None
    return job.users_resume if name == ray_snapshot.LINKED else job.checkpoints / name
