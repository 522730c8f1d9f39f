"""The datasets of a run as one worker sees them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trainshed.checkpoint.manifest import Position
from trainshed.coordinator.client import RemoteCoordinator
from trainshed.data.loader.batches import Feed
from trainshed.data.loader.row_sources import LocalSource, RemoteSource
from trainshed.data.sampler.description import describe
from trainshed.data.sampler.epoch_pass import EpochPass, Kind, steps_for, window_shift
from trainshed.data.sampler.shuffle_windows import same_place
from trainshed.data.sources.column_arrays import num_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainshed.checkpoint.manifest import DatasetPosition
    from trainshed.coordinator.actor import Coordinator
    from trainshed.data.sampler.description import Described
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.worker.attempt_config import AttemptConfig

# Rows per delivery if no batch size is set: with a hundred columns some 25 MB.
TABLE_ROWS = 65_536


@dataclass(eq=False, repr=False)
class DatasetRegistry:
    """Creates each dataset's feed on first use.

    Args:
        job: with the plans.
        coordinator: of the run; one in this process has no Ray, and its worker reads for itself.
        rank: this worker.
        world_size: number of workers.
        group: number of the worker group.
        cuts_blocks: whether workers slice cached blocks themselves.
    """

    job: AttemptConfig
    coordinator: Coordinator
    rank: int
    world_size: int
    group: int
    cuts_blocks: bool = True
    _made: dict[str, Feed] = field(default_factory=dict)

    @property
    def is_read(self) -> bool:
        """Return whether this worker has read a dataset."""
        return bool(self._made)

    def feed(self, name: str) -> Feed:
        """Return the feed of a dataset.

        Raises:
            KeyError: if the spec has no such dataset.
        """
        if name not in self.job.plans:
            known = ", ".join(self.job.plans) or "none"
            raise KeyError(f"no dataset {name!r} in spec.data.datasets; it has: {known}")
        if name not in self._made:
            plan = self.job.plans[name]
            if isinstance(self.coordinator, RemoteCoordinator):
                handle = self.coordinator.handle
                fed = RemoteSource(plan, handle, self.rank, cuts_blocks=self.cuts_blocks)
                self._made[name] = Feed(plan, fed, self.rank, uncounted=fed)
            else:
                self._made[name] = Feed(plan, LocalSource(plan), self.rank)
        return self._made[name]

    def describe(self) -> dict[str, Described]:
        """Return what determines the order of the rows, by dataset, as far as it is known."""
        counted = {
            name: counts for feed in self._made.values() for name, counts in feed.counted.items()
        }
        described = (
            (plan, describe(plan, counted.get(name))) for name, plan in self.job.plans.items()
        )
        return {plan.name: known for plan, known in described if known}

    def columns(self, name: str, kind: Kind) -> Iterator[Columns]:
        """Yield a rank's rows of a whole dataset in file order, on each call."""
        at = self.passing(name, kind, Position())
        at = replace(at, batch_size=self.world_size * TABLE_ROWS)
        return (columns for columns in self.feed(name).columns(at) if num_rows(columns))

    def passing(self, name: str, kind: Kind, position: Position) -> EpochPass:
        """Return the pass over a dataset in the current epoch."""
        steps = kind == "train" and name == self.job.main_dataset
        return EpochPass(
            dataset=name,
            kind=kind,
            epoch=position.epoch,
            first_step=position.step_in_epoch if steps else 0,
            world_size=self.world_size,
            batch_size=self.job.spec.batch_size,
            seed=self.job.spec.seed,
            group=self.group,
            # The first rows of the next epoch are read during the last steps of this one.
            epochs=self.job.spec.epochs if steps else None,
        )

    def passing_beside_steps(self, name: str, position: DatasetPosition) -> EpochPass:
        """Return the rest of a pass over a dataset that is not the main one."""
        at = self.passing(name, "train", Position(epoch=position.epoch))
        return replace(at, first_step=position.step_in_epoch)

    def gone_on(self, position: Position, before: int) -> Position:
        """Return the position of this number of workers for a saved position.

        Steps are the same for any number of workers, unless each worker gets all rows.
        """
        name = self.job.main_dataset
        if name is None:
            return position
        step = self._step_gone_on(name, position, before)
        return position.model_copy(update={"step_in_epoch": step})

    def beside_steps_gone_on(
        self, positions: Mapping[str, DatasetPosition], before: int
    ) -> dict[str, DatasetPosition]:
        """Return the position in each dataset that these workers read beside the steps."""
        return {
            name: position.model_copy(
                update={"step_in_epoch": self._step_gone_on(name, position, before)}
            )
            for name, position in positions.items()
            if name in self.job.plans
        }

    def _step_gone_on(self, name: str, position: Position | DatasetPosition, before: int) -> int:
        plan, step = self.job.plans[name], position.step_in_epoch
        if plan.spec.split:
            return step
        spec = self.job.spec
        shift = window_shift(plan, spec.seed, position.epoch)
        return same_place(
            step, spec.batch_size, plan.shuffle_buffer_rows, shift, before, self.world_size
        )

    def sharing(self, name: str, epoch: int) -> EpochPass:
        """Return a pass that gives each rank equally many rows."""
        return self.passing(name, "even", Position(epoch=epoch))

    def planned_steps(self, position: Position) -> int | None:
        """Return the steps of the whole run if the row counts are known, or the spec needs them."""
        name = self.job.main_dataset
        if self.job.spec.epochs is None or name is None:
            return None
        plan = self.job.plans[name]
        at = self.passing(name, "train", position)
        if plan.epoch_rows is not None:
            return steps_for(plan, at, plan.epoch_rows).count * self.job.spec.epochs
        if plan.spec.steps == "known":
            return self.feed(name).steps(at).count * self.job.spec.epochs
        return None
