"""Why a run did what it did, by the files in its folder: on a disk or in a bucket.

`read` is the only function with I/O; `explain` takes what it returns.
"""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Literal

from trainshed.causes.chain import (
    OUT_OF_MEMORY,
    SLOW_DATA,
    Diagnosis,
    Link,
    broken_link,
    telling_lines,
)
from trainshed.display.formatting import say_duration, say_percent, say_place
from trainshed.display.start_phases import start_seconds
from trainshed.jobs.local_runs import read_local_run, read_result
from trainshed.report.load import parse_events
from trainshed.storage.run_folder import HEARTBEAT, LOG, METRICS, RunFolder, read_record
from trainshed.worker.process_log import FOLDER, name_of
from trainshed_api.names import SUCCEEDED
from trainshed_api.progress import Progress, Started, Starting, WarningEvent, WorkersLost
from trainshed_api.start_times import START_PHASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trainshed.causes.chain import LinkName
    from trainshed.storage.folder import Folder
    from trainshed_api.progress import AnyEvent
    from trainshed_api.records import ResultRecord

_RANK = re.compile(r"\(worker (\d+), step")
_DATASET = re.compile(r"spec\.data\.datasets\.(\w+)")
_NO_TRAINING = {
    "starting": "the start",
    "waitingForData": "waiting for data",
    "evaluating": "evaluation",
    "checkpointing": "standing still for checkpoints",
    "lost": "repeating steps after lost workers",
}
LEAST_PERCENT = 10.0
# Without a step for as many usual steps, and seconds, the answer says so.
_STILL_STEPS, _STILL_SECONDS = 10, 60.0
# Of a run.json without it.
_STALL_DEADLINE = 1800
_TAIL = 400
# Of events of progress the first one is read, and so many of the last ones.
_PROGRESS, _MOST_PROGRESS = '"event":"progress"', 1_000


@dataclass(frozen=True)
class StoredRun:
    """The last attempt of a run, as its folder has it.

    Args:
        name: of the run.
        folder: of the run, as users name it.
        state: Running, Interrupted, NotStarted or an outcome.
        attempt: its number; 0 if no attempt began.
        driver: who ran it.
        began: when, in seconds since 1970.
        seen: last heartbeat of the driver.
        now: the present, by the clock that dates the files of a run that has not ended.
        result: of this attempt.
        events: of this attempt, in order.
        logs: last lines of its logs, by name.
        batch_size: of the spec.
        stall_deadline: seconds without a step after which the attempt is lost; 0 for none.
        problems: of its file as it is now.
    """

    name: str
    folder: str = ""
    state: str = "Running"
    attempt: int = 0
    driver: str = "the driver"
    began: float = 0.0
    seen: float | None = None
    now: float = 0.0
    result: ResultRecord | None = None
    events: Sequence[AnyEvent] = ()
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    batch_size: int = 0
    stall_deadline: int = _STALL_DEADLINE
    problems: Sequence[str] = ()


def read(folder: Folder) -> StoredRun:
    """Return what a folder has of a run's last attempt.

    Raises:
        OSError: if the storage does not answer.
        InfrastructureError: the same.
    """
    found = read_local_run(folder)
    if found is None:
        return StoredRun(folder.name, str(folder), "NotStarted")
    run = RunFolder(folder)
    attempt, claim = run.attempt(found.attempt), run.claimed(found.attempt)
    heartbeat, record = attempt.stat(HEARTBEAT), read_record(attempt)
    result = read_result(folder)
    spec = record.spec if record else {}
    batch_size, deadline = spec.get("batchSize"), spec.get("stallDeadlineSeconds")
    events = tuple(parse_events(_few_lines(attempt.lines(METRICS))))
    workers = max((each.workers for each in events if isinstance(each, Started)), default=0)
    logs = {LOG: attempt, **{name_of(rank): attempt / FOLDER for rank in range(min(workers, 8))}}
    return StoredRun(
        name=folder.name,
        folder=str(folder),
        state=found.status,
        attempt=found.attempt,
        driver=f"process {claim.pid} on {claim.host}" if claim else "the driver",
        began=found.started,
        seen=heartbeat.modified if heartbeat else None,
        now=_now(folder) if found.ended is None else found.ended,
        result=result if result and result.attempt == found.attempt else None,
        events=events,
        logs={name: _tail(place, name) for name, place in logs.items()},
        batch_size=batch_size if isinstance(batch_size, int) else 0,
        stall_deadline=deadline if isinstance(deadline, int) else _STALL_DEADLINE,
    )


def _now(folder: Folder) -> float:
    try:
        return folder.now()
    except OSError:  # a reader may not be allowed to write
        return time.time()


def _few_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of events without most of the progress of a long attempt, in order."""
    others: list[tuple[int, str]] = []
    progress: deque[tuple[int, str]] = deque(maxlen=_MOST_PROGRESS)
    begun = False
    for numbered in enumerate(lines):
        is_progress = _PROGRESS in numbered[1]
        (progress if is_progress and begun else others).append(numbered)
        begun = begun or is_progress
    yield from (line for _, line in sorted([*others, *progress]))


def _tail(folder: Folder, name: str) -> Sequence[str]:
    return [line.rstrip("\n") for line in deque(folder.lines(name), _TAIL)]


def explain(run: StoredRun, asked: str, file: str) -> Diagnosis:
    """Return the diagnosis of a run.

    Args:
        run: its facts.
        asked: how the user named it, for commands.
        file: its TrainingRun file, for commands.
    """
    broken = _broken(run)
    links = tuple(broken if broken and broken.name == link.name else link for link in _links(run))
    dataset = _DATASET.search(broken.says) if broken else None
    again = f"trainshed run {file}"
    smaller = f"{again} --fresh --set spec.batchSize={run.batch_size // 2}"
    # Another batch size needs --fresh, which would train the steps before a checkpoint again.
    is_resumable = run.result is not None and run.result.checkpoint is not None
    is_big = run.batch_size > 1 and not is_resumable
    by_half = is_big and broken and OUT_OF_MEMORY.search(broken.says)
    last = f"trainshed predict {asked} SOURCE" if run.state == SUCCEEDED else ""
    return Diagnosis(
        run=run.name,
        where=run.folder,
        state=run.state,
        links=links,
        healthy=_healthy(run),
        is_over=run.state != "Running",
        limit=_limit(run),
        start=start_seconds(run.events),
        log=_log(run, broken) if broken and run.attempt else (),
        commands={
            "file": f"trainshed validate {file}",
            "workers": smaller if by_half else again,
            "driver": again,
            "data": f"trainshed data show {file} --dataset {dataset[1] if dataset else 'train'}",
            "training": f"trainshed logs {asked}",
            "": last or (again if run.state != "Running" else f"trainshed logs {asked}"),
        },
    )


def _broken(run: StoredRun) -> Link | None:
    """Return the link that ended the run; None if none did."""
    if run.problems and not run.attempt:
        name: LinkName = "data" if "spec.data." in run.problems[0] else "file"
        return Link(name, "failed", run.problems[0], tuple(run.problems[1:]))
    if run.state == "Interrupted":
        seen = say_duration(run.now - run.seen) if run.seen else "an unknown time"
        says = (
            f"{run.driver} ended without a result: it was killed, or its machine stopped, "
            f"{seen} ago"
        )
        return Link("driver", "failed", says, time=run.seen)
    if run.result is None or run.result.outcome != "Failed":
        return None
    message, ended = run.result.message, run.result.finished_at.timestamp()
    return Link(broken_link(message), "failed", message, time=ended)


def _links(run: StoredRun) -> tuple[Link, ...]:
    """Return the links as events tell of them."""
    nothing: tuple[LinkName, ...] = ("file", "driver", "workers", "data", "training")
    if not run.attempt:
        return tuple(Link(name, "unknown") for name in nothing)
    started = next((each for each in run.events if isinstance(each, Started)), None)
    steps = [each for each in run.events if isinstance(each, Progress)]
    lost = [each.message for each in run.events if isinstance(each, WorkersLost)]
    is_running = run.state == "Running"
    since = f"for {say_duration(run.now - (started.time if started else run.began))}"
    workers = Link("workers", "unknown" if not is_running else "waiting", _starting(run, since))
    training = Link("training", "unknown")
    if started:
        workers = Link("workers", "ok", f"{started.workers} started", tuple(lost))
        if is_running and not steps:
            training = Link("training", "waiting", f"the first step is not done {since}")
    if steps:
        training = Link("training", *_moving(run, steps))
    changed = tuple(f"it has changed since: {problem}" for problem in run.problems)
    return (
        Link("file", "ok", f"valid when attempt {run.attempt} began", changed),
        Link("driver", "ok", f"{run.driver}, attempt {run.attempt}"),
        workers,
        Link("data", "ok" if steps else "unknown"),
        training,
    )


def _starting(run: StoredRun, since: str) -> str:
    notes = [each.message for each in run.events if isinstance(each, WarningEvent)]
    phases = [START_PHASES[each.phase].doing for each in run.events if isinstance(each, Starting)]
    return ": ".join((f"the workers have not started {since}", *phases[-1:], *notes[-1:]))


def _moving(run: StoredRun, steps: Sequence[Progress]) -> tuple[Literal["ok", "waiting"], str]:
    """Return whether steps are made, in view of how long they usually take."""
    last = steps[-1]
    reached = say_place(last.epoch, last.step) + (f" of {last.steps:,}" if last.steps else "")
    usual = median([after.time - before.time for before, after in pairwise(steps)] or [0.0])
    still = run.now - max(each.time for each in run.events)
    if run.state != "Running" or still <= max(_STILL_SECONDS, _STILL_STEPS * usual):
        return "ok", reached
    says = f"no step for {say_duration(still)}, after {reached}"
    if 0 < run.stall_deadline < still:
        return "waiting", says
    return "ok", f"{says} (an evaluation or a checkpoint may take as long)"


def _healthy(run: StoredRun) -> str:
    if not run.attempt:
        return f"no attempt of {run.name} has begun"
    if run.state == "Running":
        return "Nothing is wrong: the run trains"
    if run.result and run.result.message:
        return f"Nothing failed: {run.result.message}"
    return f"Nothing failed: the run ended as {run.state}"


def _limit(run: StoredRun) -> str:
    """Return what takes most of the time beside training; empty if it is little."""
    steps = [each for each in run.events if isinstance(each, Progress)]
    if run.state == "Running":
        said = [
            each.message
            for each in run.events
            if isinstance(each, WarningEvent) and SLOW_DATA.search(each.message)
        ]
        waits = (steps[-1].data_wait_percent or 0.0) if steps else 0.0
        return f"Nothing is wrong, but {said[-1]}" if said and waits >= LEAST_PERCENT else ""
    if run.result is None or run.result.outcome != SUCCEEDED:
        return ""
    if run.result.waits_for:
        return f"Nothing failed, but {run.result.waits_for}"
    spent = run.result.seconds.by_bucket()
    bucket = max(_NO_TRAINING, key=lambda each: spent[each])
    percent = 100 * spent[bucket] / max(run.result.wall_seconds, 1e-9)
    if percent < LEAST_PERCENT:
        return ""
    share = f"{say_percent(percent)} of the time ({say_duration(spent[bucket])})"
    return f"Nothing failed; {_NO_TRAINING[bucket]} took {share}"


def _log(run: StoredRun, broken: Link) -> tuple[str, ...]:
    """Return the lines of the log that tell most: the driver's, or the failed worker's."""
    rank = _RANK.search(broken.says)
    order = [LOG, *([name_of(int(rank[1]))] if rank else []), *run.logs]
    name = next((each for each in order if run.logs.get(each)), "")
    return telling_lines(run.logs[name]) if name else ()
