"""Whether a run that was stopped did what a run does that nobody stops. Pure."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hack.stops.draw import KILLS, SOFT, Stop
from trainshed_api.names import EXIT_SUCCEEDED, EXIT_TRY_AGAIN

# How long a soft stop may take: what the spec allows, and what a busy machine needs to end Ray.
GRACE_SECONDS = 60
STOP_SECONDS = GRACE_SECONDS + 60

# Rows of one step of one worker, by dataset.
Rows = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Line:
    """What a worker process trained in a step, or in a part of it.

    Args:
        life: when its process began, in nanoseconds; a later one replaces what an earlier one did.
    """

    life: int
    rank: int
    epoch: int
    step: int
    rows: Rows

    def after(self, before: "Line | None") -> "Line":
        """Return this line, with the rows of an earlier part of the step in the same process."""
        if before is None or before.life != self.life:
            return self
        names = before.rows.keys() | self.rows.keys()
        rows = {name: [*before.rows.get(name, ()), *self.rows.get(name, ())] for name in names}
        return replace(self, rows=rows)


@dataclass(frozen=True)
class Trace:
    """What the workers of a run wrote, of all its attempts.

    Args:
        weights: digest of all that was trained, at the function's end; None where it had none.
        saved: digest of the model in the last checkpoint; None where the program has its own form.
        trained: digest of that model at the function's end.
    """

    lines: Sequence[Line]
    weights: str | None = None
    trained: str | None = None
    saved: str | None = None

    @property
    def effective(self) -> dict[tuple[int, int], Line]:
        """Return by step and rank what counts: what the last process trained there."""
        counted: dict[tuple[int, int], Line] = {}
        for line in sorted(self.lines, key=lambda each: each.life):
            key = (line.step, line.rank)
            counted[key] = line.after(counted.get(key))
        return counted

    @property
    def repeated(self) -> list[int]:
        """Return the steps that one rank trained in more than one process."""
        processes = {(line.step, line.rank, line.life) for line in self.lines}
        times = Counter((step, rank) for step, rank, _ in processes)
        return sorted({step for (step, _), count in times.items() if count > 1})


@dataclass(frozen=True)
class End:
    """How one run of the command ended.

    Args:
        code: as a shell shows it.
        signal: that was sent; None where none was.
        seconds: from the signal to the end.
        left: commands of processes that outlived it.
    """

    code: int
    signal: str | None = None
    seconds: float = 0.0
    left: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Promise:
    """What a program is promised, beyond that no stop makes it fail.

    Args:
        rows: in each epoch, by dataset; empty where a step has no rows.
        keeps_steps: whether a soft stop writes a checkpoint, so that no step is repeated.
    """

    rows: Mapping[str, int]
    keeps_steps: bool


def judge(
    stop: Stop, promise: Promise, reference: Trace, seen: Trace, ends: Sequence[End]
) -> list[str]:
    """Return what went wrong, a sentence each; nothing when the stop changed nothing.

    Args:
        reference: of a run that nobody stopped.
        ends: of each time that the command was run, until it succeeded.
    """
    is_complete = seen.effective.keys() >= reference.effective.keys()
    return [
        *_judge_ends(ends, is_complete=is_complete),
        *_judge_steps(reference, seen),
        *judge_epochs(promise, seen),
        *_judge_repeats(stop, promise, seen),
        *_judge_weights(reference, seen),
    ]


def judge_epochs(promise: Promise, seen: Trace) -> Iterator[str]:
    """Yield the epochs that have not every row exactly once."""
    epochs: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for line in seen.effective.values():
        for name, rows in line.rows.items():
            epochs[name, line.epoch].update(rows)
    for name, count in promise.rows.items():
        found = {epoch: rows for (dataset, epoch), rows in epochs.items() if dataset == name}
        whole = next((rows for rows in found.values() if rows.total() == count), Counter())
        for epoch, seen_there in sorted(found.items()):
            if seen_there != whole or not whole:
                lost, again = (whole - seen_there).total(), (seen_there - whole).total()
                yield f"{name}, epoch {epoch}: {lost} rows lost, {again} repeated, of {count}"


def _judge_ends(ends: Sequence[End], *, is_complete: bool) -> Iterator[str]:
    after_kill = False
    for number, end in enumerate(ends, 1):
        if end.left:
            yield f"attempt {number} left processes: {'; '.join(end.left)}"
        if end.signal in SOFT and end.seconds > STOP_SECONDS:
            yield f"the stop took {end.seconds:.0f} s, more than {STOP_SECONDS} s"
        # A signal that comes when all is trained may find a run that is finished.
        is_over = number == len(ends) and is_complete
        allowed = {EXIT_SUCCEEDED} if is_over else set()
        if end.signal:
            allowed |= {(SOFT | KILLS)[end.signal]} - {EXIT_SUCCEEDED}
        after_kill = after_kill or end.signal in KILLS
        if after_kill:  # what was killed may still be taken for alive
            allowed |= {EXIT_TRY_AGAIN}
        if end.code == EXIT_SUCCEEDED and not is_over:
            yield f"attempt {number} succeeded before all was trained"
        elif end.code not in allowed:
            wanted = " or ".join(map(str, sorted(allowed or {EXIT_SUCCEEDED})))
            yield f"attempt {number} ended with code {end.code}; expected {wanted}"
    if ends[-1].code != EXIT_SUCCEEDED:
        yield f"the run is not finished after {len(ends)} attempts"


def _judge_steps(reference: Trace, seen: Trace) -> Iterator[str]:
    want, got = reference.effective, seen.effective
    if missing := sorted({step for step, _ in want.keys() - got.keys()}):
        yield f"steps never trained: {_few(missing)}"
    if added := sorted({step for step, _ in got.keys() - want.keys()}):
        yield f"steps beyond the reference's: {_few(added)}"
    both = want.keys() & got.keys()
    if other := sorted({key[0] for key in both if want[key].rows != got[key].rows}):
        yield f"steps with other rows than the reference's: {_few(other)}"


def _judge_repeats(stop: Stop, promise: Promise, seen: Trace) -> Iterator[str]:
    # What a killed process had trained after its last checkpoint has to be trained again.
    is_orderly = stop.signal in SOFT and stop.phase != "early-loss"
    if is_orderly and promise.keeps_steps and seen.repeated:
        yield f"steps trained twice: {_few(seen.repeated)}"


def _judge_weights(reference: Trace, seen: Trace) -> Iterator[str]:
    if reference.weights != seen.weights:
        yield f"final weights are {seen.weights}, the reference's {reference.weights}"
    if seen.saved != seen.trained:
        yield f"the last checkpoint holds {seen.saved}, the function ended with {seen.trained}"


def _few(steps: Sequence[int]) -> str:
    more = f" and {len(steps) - 5} more" if len(steps) > 5 else ""  # noqa: PLR2004
    return ", ".join(map(str, steps[:5])) + more


def read_trace(texts: Iterable[str], saved: str | None) -> Trace:
    """Return what the logs of a run's workers say.

    Args:
        texts: of the logs, in which the last line of a killed process may be cut.
        saved: digest of the model in the last checkpoint.
    """
    lines: list[Line] = []
    ended: tuple[int, str | None, str | None] = (0, None, None)
    for text in texts:
        for record in (json.loads(line) for line in text.splitlines() if line.endswith("}")):
            if "weights" in record:
                ended = max(ended, (record["life"], record["weights"], record["trained"]))
            else:
                lines.append(Line(**record))
    return Trace(lines, ended[1], ended[2], saved)
