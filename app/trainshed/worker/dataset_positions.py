"""Positions of the datasets that a function reads beside the run's steps. Pure: no torch, no Ray.

The main dataset's batches are the steps, which Loop counts. Batches of all other datasets are
counted here when the function takes them. The end of a step settles their positions, which
checkpoints save.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from trainshed.checkpoint.manifest import DatasetPosition

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

Item = TypeVar("Item")


@dataclass(eq=False)
class OpenPass:
    """One open iterator over a dataset.

    Args:
        dataset: its name.
        start: position of its first batch.
        position: of the next batch.
        num_epochs: epochs that had ended when it was opened.
        num_steps: steps that had begun when it was opened.
    """

    dataset: str
    start: DatasetPosition
    position: DatasetPosition
    num_epochs: int
    num_steps: int


class DatasetPositions:
    """Counts the batches that a worker's function takes beside the run's steps.

    A batch that is taken before the main dataset's batch of a step belongs to that step, as in
    `zip(run.batches("other"), run.batches("train"))`. The first step after a start or an epoch's
    end shows how many batches a function takes so early.

    Args:
        restored: by dataset, the positions in the checkpoint that training resumes from.
    """

    def __init__(self, restored: Mapping[str, DatasetPosition]) -> None:
        # Start of the next iterator, for datasets that were read beside a step.
        self._next = dict(restored)
        self._open: dict[str, OpenPass] = {}
        # Ends of passes that were read beside the steps, if no other pass has started.
        self._ends: dict[str, DatasetPosition] = {}
        self._num_epochs = 0
        self._num_steps = 0
        # Whether the first step since the start or the last epoch's end has begun.
        self._in_steps = False
        # Batches that the function took before that step.
        self._early: dict[str, int] = {}
        # The last batches since the main dataset's batch of the current step, as many as the
        # function takes before a step.
        self._latest = {
            name: deque[DatasetPosition](maxlen=position.before_step)
            for name, position in restored.items()
            if position.before_step
        }
        self.settled = dict(restored)

    def open(self, dataset: str, epoch: int, *, in_epochs: bool) -> OpenPass:
        """Return a new iterator's reading, which starts at the dataset's position.

        Args:
            dataset: its name.
            epoch: of the run.
            in_epochs: whether the iterator was created inside a loop over `run.epochs()`; only one
                created outside continues over the end of an epoch.
        """
        start = self._start(dataset, epoch, in_epochs)
        opened = OpenPass(dataset, start, start, self._num_epochs, self._num_steps)
        self._open[dataset] = opened
        self._ends.pop(dataset, None)
        return opened

    def counted(self, reading: OpenPass, batches: Iterator[Item]) -> Generator[Item, None, None]:
        """Yield the batches of a reading, count each when it is taken, then close the reading."""
        is_exhausted = False
        try:
            for batch in batches:
                self._take(reading)
                yield batch
            is_exhausted = True
        finally:
            self._close(reading, is_exhausted=is_exhausted)

    def begin_step(self) -> None:
        """Record that the main dataset returned its batch of a step, or has no more."""
        if not self._in_steps:
            self._in_steps = True
            self._latest |= {name: deque(maxlen=count) for name, count in self._early.items()}
        for latest in self._latest.values():
            latest.clear()
        self._num_steps += 1

    def end_step(self) -> None:
        """Settle the positions at the end of a step.

        The main dataset's batch of the next step was requested by then, so batches that the
        function takes before that one belong to the next step.
        """
        self._settle({name: latest[0] for name, latest in self._latest.items() if latest})

    def end_epoch(self) -> None:
        """Settle the positions at the end of an epoch, which ends the iterators created in it.

        An iterator that the function continues to read counts as created outside.
        """
        for name, position in self._positions().items():
            if position.spans_epochs:
                continue
            was_read = name in self._open or position.step_in_epoch > 0
            self._next[name] = _next_pass(position) if was_read else position
            self._open.pop(name, None)
            self._ends.pop(name, None)
        self._in_steps = False
        self._early = {}
        self._num_epochs += 1
        self._settle({})

    def _settle(self, ahead: Mapping[str, DatasetPosition]) -> None:
        """Settle the positions; ahead: datasets whose batches of the next step were taken."""
        before = {name: latest.maxlen or 0 for name, latest in self._latest.items()}
        self.settled = {
            name: position.model_copy(update={"before_step": before.get(name, 0)})
            for name, position in {**self._positions(), **ahead}.items()
        }

    def _positions(self) -> dict[str, DatasetPosition]:
        positions = {name: reading.position for name, reading in self._open.items()}
        return self._next | self._ends | positions

    def _start(self, dataset: str, epoch: int, in_epochs: bool) -> DatasetPosition:
        there = self._next.get(dataset)
        if self._in_steps and dataset in self._open:
            there = _next_pass(self._open[dataset].position)
        is_look = not self._in_steps and dataset not in self._latest
        is_outside = not (in_epochs or (there and there.spans_epochs))
        if there is None or is_look or is_outside:
            return DatasetPosition(epoch=epoch, step_in_epoch=0, spans_epochs=not in_epochs)
        number = there.epoch if there.step_in_epoch else max(epoch, there.epoch)
        spans_epochs = there.spans_epochs or not in_epochs
        return there.model_copy(update={"epoch": number, "spans_epochs": spans_epochs})

    def _take(self, reading: OpenPass) -> None:
        name, position = reading.dataset, reading.position
        spans_epochs = position.spans_epochs or reading.num_epochs < self._num_epochs
        if not self._in_steps:
            self._early[name] = self._early.get(name, 0) + 1
        elif name in self._latest:
            self._latest[name].append(position)
        counted = {"step_in_epoch": position.step_in_epoch + 1, "spans_epochs": spans_epochs}
        reading.position = position.model_copy(update=counted)
        self._open[name] = reading

    def _close(self, reading: OpenPass, *, is_exhausted: bool) -> None:
        name, position = reading.dataset, reading.position
        if self._open.get(name) is not reading:
            return
        del self._open[name]
        is_new = not self._in_steps and reading.num_epochs == self._num_epochs
        if is_new and not (is_exhausted and reading.start.step_in_epoch):
            # A read before the first step, or a separate loop there: the iterator that is read
            # beside the steps starts where this one did.
            self._early.pop(name, None)
            return
        self._next[name] = _next_pass(position)
        is_beside_steps = reading.start.step_in_epoch or reading.num_steps < self._num_steps
        if is_exhausted and is_beside_steps:
            # A function that reads on finds the end again; a new iterator starts a pass at once.
            self._ends[name] = position


def _next_pass(position: DatasetPosition) -> DatasetPosition:
    return position.model_copy(update={"epoch": position.epoch + 1, "step_in_epoch": 0})
