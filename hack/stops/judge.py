"""Whether a run that was stopped did what a run does that nobody stops. Pure."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hack.stops.draw import EXIT_CODES, KILLS, SOFT, Stop
from trainshed_api.names import EXIT_SUCCEEDED, EXIT_TRY_AGAIN

# How long a soft stop may take: what the spec allows, and what a busy machine needs to end Ray.
GRACE_SECONDS = 60
STOP_SECONDS = GRACE_SECONDS + 60
# How many steps a message names.
SHOWN_STEPS = 5

# What is trained once: the share of a step, in an epoch, that a rank has.
Share = tuple[int, int, int]


@dataclass(frozen=True)
class Line:
    """What a worker process trained in a step, or in a part of it.

    Args:
        life: when its process began, in nanoseconds; a later one replaces what an earlier one did.
        rows: their numbers by dataset.
    """

    life: int
    rank: int
    epoch: int
    step: int
    rows: Mapping[str, Sequence[int]]

    @property
    def key(self) -> Share:
        """Return which share of which step it is."""
        return self.step, self.epoch, self.rank


@dataclass(frozen=True)
class Trace:
    """What the workers of a run wrote, in all its attempts.

    Args:
        lines: those of one process in its order.
        weights: digest of all that was trained, at the function's end; None where it had none.
        trained: digest of the model at the function's end.
        saved: digest of the model in the last checkpoint; None where the program has its own form.
    """

    lines: Sequence[Line]
    weights: str | None = None
    trained: str | None = None
    saved: str | None = None

    @property
    def effective(self) -> dict[Share, dict[str, list[int]]]:
        """Return the rows of each share of a step: those of the last process that trained it."""
        last = {line.key: line.life for line in sorted(self.lines, key=lambda line: line.life)}
        counted: dict[Share, dict[str, list[int]]] = {}
        for line in self.lines:
            if line.life == last[line.key]:
                rows = counted.setdefault(line.key, {})
                for name, numbers in line.rows.items():
                    rows.setdefault(name, []).extend(numbers)
        return counted

    @property
    def repeated(self) -> set[Share]:
        """Return the shares of steps that more than one process trained."""
        times = Counter(key for key, _ in {(line.key, line.life) for line in self.lines})
        return {key for key, count in times.items() if count > 1}


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


def judge(
    stop: Stop, reference: Trace, seen: Trace, ends: Sequence[End], *, keeps_steps: bool
) -> list[str]:
    """Return what went wrong, a sentence each; nothing when the stop changed nothing.

    Args:
        reference: of a run that nobody stopped.
        ends: of each time that the command was run, until it succeeded.
        keeps_steps: whether a soft stop writes a checkpoint, so that no step is repeated.
    """
    # What a killed process had trained after its last checkpoint has to be trained again.
    repeats = not keeps_steps or stop.signal in KILLS or stop.phase == "early-loss"
    return [
        *_judge_ends(ends, is_complete=seen.effective.keys() >= reference.effective.keys()),
        *_judge_steps(reference, seen, repeats=repeats),
        *_judge_weights(reference, seen),
    ]


def judge_epochs(rows: Mapping[str, int], reference: Trace) -> Iterator[str]:
    """Yield the epochs that have not every row exactly once.

    Args:
        rows: in each epoch, by dataset.
    """
    epochs: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for (_, epoch, _), share in reference.effective.items():
        for name, numbers in share.items():
            epochs[name, epoch].update(numbers)
    for name, count in rows.items():
        found = {epoch: seen for (dataset, epoch), seen in epochs.items() if dataset == name}
        # Rows may be equal, so an epoch that has all of them is the measure of the others.
        whole = next((seen for seen in found.values() if seen.total() == count), Counter())
        for epoch, seen in sorted(found.items()):
            if seen != whole or not whole:
                lost, again = (whole - seen).total(), (seen - whole).total()
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
            allowed |= {EXIT_CODES[end.signal]} - {EXIT_SUCCEEDED}
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


def _judge_steps(reference: Trace, seen: Trace, *, repeats: bool) -> Iterator[str]:
    want, got = reference.effective, seen.effective
    found = {
        "never trained": want.keys() - got.keys(),
        "beyond the reference's": got.keys() - want.keys(),
        "with other rows than the reference's": {
            key for key in want.keys() & got.keys() if want[key] != got[key]
        },
        "trained twice": set() if repeats else seen.repeated,
    }
    for fault, shares in found.items():
        if steps := sorted({step for step, *_ in shares}):
            more = f" and {len(steps) - SHOWN_STEPS} more" if len(steps) > SHOWN_STEPS else ""
            yield f"steps {fault}: {', '.join(map(str, steps[:SHOWN_STEPS]))}{more}"


def _judge_weights(reference: Trace, seen: Trace) -> Iterator[str]:
    if reference.weights != seen.weights:
        yield f"final weights are {seen.weights}, the reference's {reference.weights}"
    if seen.saved != seen.trained:
        yield f"the last checkpoint holds {seen.saved}, the function ended with {seen.trained}"


def read_trace(texts: Iterable[str], saved: str | None) -> Trace:
    """Return the trace that the logs of a run's workers hold.

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
