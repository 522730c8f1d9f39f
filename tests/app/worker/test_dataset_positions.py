"""A function that reads datasets beside the steps resumes each of them where it stood."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainshed.checkpoint.manifest import DatasetPosition
from trainshed.worker.dataset_positions import DatasetPositions

# A dataset, its pass, and the step in it.
Batch = tuple[str, int, int]


class StoppedError(Exception):
    """The end of an attempt."""


@dataclass
class Checkpoint:
    """What an attempt resumes from."""

    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0
    positions: dict[str, DatasetPosition] = field(default_factory=dict)


class Run:
    """A run without tensors: counts steps as Loop does, and logs what each step is trained on.

    Args:
        lengths: steps of a pass, by dataset; those of `train` are the run's steps.
        epochs: of the run.
        resumed: the checkpoint that it begins with.
        stops_after: boundaries between steps, or epochs, that it comes to; None for no stop.
    """

    def __init__(
        self,
        lengths: dict[str, int],
        epochs: int,
        resumed: Checkpoint,
        stops_after: int | None = None,
    ) -> None:
        self._lengths = lengths
        self._num_epochs = epochs
        self._boundaries_left = stops_after
        self._positions = DatasetPositions(resumed.positions)
        self._in_epochs = False
        # The epoch and the step of it that is under way, and whether weights have it behind them.
        self._under_way: tuple[int, int] | None = None
        self._is_trained = False
        self.epoch, self.step_in_epoch = resumed.epoch, resumed.step_in_epoch
        self.step = resumed.step
        self.checkpoint = resumed
        # What the function used, by epoch and step of the run.
        self.used: dict[tuple[int, int], list[Batch]] = {}

    def epochs(self) -> Iterator[int]:
        for epoch in range(self.epoch, self._num_epochs):
            self._in_epochs = True
            yield epoch
            self._leave_step()
            self.epoch, self.step_in_epoch = epoch + 1, 0
            self._positions.end_epoch()
            self._boundary()

    def batches(self, name: str) -> Iterator[Batch]:
        if name == "train":
            return self._steps()
        return self._batches_beside_steps(name, in_epochs=self._in_epochs)

    def use(self, *batches: Batch) -> None:
        self._is_trained = True
        self.used.setdefault((self.epoch, self.step), []).extend(batches)

    def _steps(self) -> Iterator[Batch]:
        for number in range(self.step_in_epoch, self._lengths["train"]):
            self._positions.begin_step()
            self._under_way, self._is_trained = (self.epoch, number), False
            try:
                yield "train", self.epoch, number
            finally:  # the function may have left its loop a while ago, and hold the iterator
                if self._under_way == (self.epoch, number):
                    self._leave_step()
            self._boundary()
        self._positions.begin_step()

    def _leave_step(self) -> None:
        if self._under_way and self._is_trained:
            self.step_in_epoch, self.step = self.step_in_epoch + 1, self.step + 1
            self._positions.end_step()
        self._under_way = None

    def _batches_beside_steps(self, name: str, *, in_epochs: bool) -> Iterator[Batch]:
        reading = self._positions.open(name, self.epoch, in_epochs=in_epochs)
        start = reading.start
        left = ((name, start.epoch, k) for k in range(start.step_in_epoch, self._lengths[name]))
        yield from self._positions.counted(reading, left)

    def _boundary(self) -> None:
        settled = dict(self._positions.settled)
        self.checkpoint = Checkpoint(self.epoch, self.step_in_epoch, self.step, settled)
        if self._boundaries_left is not None:
            self._boundaries_left -= 1
            if not self._boundaries_left:
                raise StoppedError


def endless(run: Run, name: str) -> Iterator[Batch]:
    while True:
        yield from run.batches(name)


def chained(run: Run, name: str) -> Iterator[Batch]:
    return itertools.chain.from_iterable(run.batches(name) for _ in itertools.count())


class Restarted:
    """An iterator that is made anew where it ends, as many functions do by hand."""

    def __init__(self, run: Run, name: str) -> None:
        self._run, self._name = run, name
        self._batches = iter(run.batches(name))

    def take(self) -> Batch:
        try:
            return next(self._batches)
        except StopIteration:
            self._batches = iter(self._run.batches(self._name))
            return next(self._batches)


def zip_after(run: Run) -> None:
    for _ in run.epochs():
        for batch, other in zip(run.batches("train"), run.batches("a"), strict=False):
            run.use(batch, other)


def zip_before(run: Run) -> None:
    for _ in run.epochs():
        for other, batch in zip(run.batches("a"), run.batches("train"), strict=False):
            run.use(batch, other)


def zip_three(run: Run) -> None:
    for _ in run.epochs():
        each = zip(run.batches("a"), run.batches("train"), run.batches("b"), strict=False)
        for batches in each:
            run.use(*batches)


def zip_longest(run: Run) -> None:
    for _ in run.epochs():
        each = itertools.zip_longest(run.batches("train"), run.batches("a"))
        for batches in each:
            run.use(*(batch for batch in batches if batch))


def zip_endless_after(run: Run) -> None:
    for _ in run.epochs():
        for batch, other in zip(run.batches("train"), endless(run, "a"), strict=False):
            run.use(batch, other)


def zip_endless_before(run: Run) -> None:
    for _ in run.epochs():
        for other, batch in zip(endless(run, "a"), run.batches("train"), strict=False):
            run.use(batch, other)


def zip_chained_before(run: Run) -> None:
    for _ in run.epochs():
        for other, batch in zip(chained(run, "a"), run.batches("train"), strict=False):
            run.use(batch, other)


def next_in_the_body(run: Run) -> None:
    for _ in run.epochs():
        others = iter(run.batches("a"))
        for batch in run.batches("train"):
            run.use(batch, *itertools.islice(others, 1))


def two_restarted_by_hand(run: Run) -> None:
    for _ in run.epochs():
        first, second = Restarted(run, "a"), Restarted(run, "b")
        for batch in run.batches("train"):
            run.use(batch, first.take(), second.take(), second.take())


def made_outside(run: Run) -> None:
    others = Restarted(run, "a")
    for _ in run.epochs():
        for batch in run.batches("train"):
            run.use(batch, others.take())


def made_outside_and_zipped_before(run: Run) -> None:
    others = run.batches("a")
    for _ in run.epochs():
        for other, batch in zip(others, run.batches("train"), strict=False):
            run.use(batch, other)


def each_second_step(run: Run) -> None:
    for _ in run.epochs():
        others = endless(run, "a")
        for batch in run.batches("train"):
            run.use(batch)
            if run.step % 2:
                run.use(next(others))


def two_before_each_step(run: Run) -> None:
    for _ in run.epochs():
        others, steps = endless(run, "a"), iter(run.batches("train"))
        while True:
            early = [next(others), next(others)]
            batch = next(steps, None)
            if batch is None:
                break
            run.use(batch, *early)


def left_and_begun_anew(run: Run) -> None:
    for _ in run.epochs():
        others = iter(run.batches("a"))
        for batch in run.batches("train"):
            run.use(batch, *itertools.islice(others, 1))
            if run.step % 3 == 2:
                others = iter(run.batches("a"))


def only_before_even_steps(run: Run) -> None:
    for _ in run.epochs():
        others, steps = endless(run, "a"), iter(run.batches("train"))
        for number in itertools.count(run.step_in_epoch):
            early = [] if number % 2 else [next(others)]
            batch = next(steps, None)
            if batch is None:
                break
            run.use(batch, *early)


def in_turn(run: Run) -> None:
    for _ in run.epochs():
        iterators = {"train": iter(run.batches("train")), "a": endless(run, "a")}
        for name in itertools.cycle(iterators):
            batch = next(iterators[name], None)
            if batch is None:
                break
            run.use(batch)


def as_long_as_there_are_some(run: Run) -> None:
    for _ in run.epochs():
        others = iter(run.batches("a"))
        for batch in run.batches("train"):
            run.use(batch, *filter(None, [next(others, None), next(others, None)]))


def whole_in_each_step(run: Run) -> None:
    for _ in run.epochs():
        for batch in run.batches("train"):
            run.use(batch, *run.batches("a"))


def continued_after_a_first_look(run: Run) -> None:
    for _ in run.epochs():
        others = endless(run, "a")
        next(others)
        for batch in run.batches("train"):
            run.use(batch, next(others))


def looked_at_first(run: Run) -> None:
    for _ in run.epochs():
        next(iter(run.batches("a")))
        for batch, other in zip(run.batches("train"), run.batches("a"), strict=False):
            run.use(batch, other)


def read_whole_before_and_beside(run: Run) -> None:
    whole = list(run.batches("a"))
    for _ in run.epochs():
        for other, batch in zip(run.batches("a"), run.batches("train"), strict=False):
            run.use(batch, other, ("rows in all", len(whole), 0))


def in_a_loop_of_its_own(run: Run) -> None:
    for _ in run.epochs():
        others = list(run.batches("a"))
        for batch in run.batches("train"):
            run.use(batch, *others)


PROGRAMS: list[Callable[[Run], None]] = [
    zip_after,
    zip_before,
    zip_three,
    zip_longest,
    zip_endless_after,
    zip_endless_before,
    zip_chained_before,
    next_in_the_body,
    two_restarted_by_hand,
    made_outside,
    made_outside_and_zipped_before,
    each_second_step,
    two_before_each_step,
    only_before_even_steps,
    in_turn,
    as_long_as_there_are_some,
    whole_in_each_step,
    left_and_begun_anew,
    continued_after_a_first_look,
    looked_at_first,
    read_whole_before_and_beside,
    in_a_loop_of_its_own,
]
EPOCHS = 4


def trained(
    program: Callable[[Run], None], lengths: dict[str, int], stops: list[int]
) -> dict[tuple[int, int], list[Batch]]:
    """Return what each step was trained on by a run that stops so many boundaries after a start."""
    used: dict[tuple[int, int], list[Batch]] = {}
    resumed = Checkpoint()
    for boundaries in [*stops, None]:
        run = Run(lengths, EPOCHS, resumed, boundaries)
        try:
            program(run)
        except StoppedError:
            resumed = run.checkpoint
            # What was done after the checkpoint is done again.
            done = (resumed.epoch, resumed.step)
            used |= {at: batches for at, batches in run.used.items() if at < done}
            continue
        return used | run.used
    raise AssertionError("the last attempt is not stopped")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@settings(max_examples=40)
@given(
    steps=st.integers(1, 7),
    others=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    stops=st.lists(st.integers(1, 12), min_size=1, max_size=5),
)
def test_every_step_is_trained_on_the_same_batches_however_often_a_run_stops(
    program: Callable[[Run], None], steps: int, others: tuple[int, int], stops: list[int]
) -> None:
    lengths = {"train": steps, "a": others[0], "b": others[1]}

    assert trained(program, lengths, stops) == trained(program, lengths, [])
