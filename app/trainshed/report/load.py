"""Read the files that a run left behind into frozen values.

The only place of the report that reads files. It takes what it finds: a run that is still going,
a line cut off by a kill, an attempt that never began.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from trainshed.storage import run_folder as folders
from trainshed.storage import training_figures
from trainshed.storage.addresses import open_folder
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import METRICS, RECORD, RESULT, TRACES
from trainshed.storage.training_figures import Confusion, Importance
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Evaluated,
    Finished,
    Progress,
    Record,
    Started,
    StepName,
    WorkersLost,
    parse_event,
)
from trainshed_api.records import ResultRecord, RunRecord

EXAMPLES = "examples"
MAX_PICTURES = 60
MAX_PICTURE_BYTES = 300_000
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


_File = TypeVar("_File", bound=Record)


class NoRunFolderError(ValueError):
    """The folder holds no run that could be reported on."""


class Caption(Record):
    """One line of examples/NAME.json."""

    image: str
    caption: str = ""
    good: bool | None = None


@dataclass(frozen=True)
class Picture:
    """One example as it is shown."""

    png: bytes
    caption: str
    good: bool | None
    width: int


@dataclass(frozen=True)
class Gallery:
    """The examples of one name; `total` counts those that were left out too."""

    name: str
    pictures: tuple[Picture, ...]
    total: int


@dataclass(frozen=True)
class AttemptHistory:
    """What one attempt reported, in order."""

    number: int
    events: tuple[AnyEvent, ...]

    @property
    def started(self) -> Started | None:
        """How training began; where it was said twice before anything was done, the second."""
        found = None
        for event in self.events:
            if isinstance(event, Started):
                found = event
            elif found and isinstance(event, Progress | Evaluated | CheckpointSaved | WorkersLost):
                break
        return found

    @property
    def finished(self) -> Finished | None:
        """The last event of an attempt that ended by itself."""
        return next((event for event in self.events if isinstance(event, Finished)), None)


@dataclass(frozen=True)
class RunData:
    """Everything known about one run.

    `result` is None while the run has not ended; `removed` are the paths of its checkpoints where
    nothing lies any more, `traces` those of the profiler's files.
    """

    folder: Folder
    provenance: RunRecord
    result: ResultRecord | None
    attempts: tuple[AttemptHistory, ...]
    galleries: tuple[Gallery, ...]
    figures: tuple[Importance | Confusion, ...] = ()
    removed: frozenset[str] = frozenset()
    traces: tuple[str, ...] = ()

    @property
    def step_name(self) -> StepName:
        """What a step of the run is called."""
        started = next((a.started for a in reversed(self.attempts) if a.started), None)
        return started.step_name if started else "step"


def read_run(folder: Folder) -> RunData:
    """Everything in the folder of the run in `folder`.

    Raises NoRunFolderError where there is no run.json, or a run.json or result.json is not ours,
    and OSError where the storage does not give it.
    """
    result = _read_model(folder, RESULT, ResultRecord)
    provenance = _read_model(folder, RECORD, RunRecord)
    if provenance is None:
        raise NoRunFolderError(
            f"{folder} is not the folder of a run: it has no {RECORD};"
            " give the folder that `trainshed run` named, <storage>/local/<name>"
        )
    run = folders.RunFolder(folder)
    # A fresh start is another training under the same name: what lies before it is not shown.
    numbered = [(number, run.attempt(number)) for number in run.lineage()]
    attempts = tuple(AttemptHistory(number, tuple(read_events(path))) for number, path in numbered)
    if result is not None and any(a.number > result.attempt for a in attempts):
        # The result is that of an earlier attempt, and a newer one is under way.
        result = None
    galleries: dict[str, Gallery] = {}
    drawn: dict[str, Importance | Confusion] = {}
    for _, path in numbered:
        galleries.update((gallery.name, gallery) for gallery in _read_galleries(path / EXAMPLES))
        drawn.update((figure.name, figure) for figure in training_figures.read(path))
    return RunData(
        folder,
        provenance,
        result,
        attempts,
        tuple(galleries.values()),
        tuple(drawn.values()),
        _find_removed(folder, (event for attempt in attempts for event in attempt.events)),
        tuple(
            str(path / TRACES / name) for _, path in numbered for name in (path / TRACES).names()
        ),
    )


def read_events(attempt: Folder) -> Iterator[AnyEvent]:
    """The events of an attempt; what cannot be read is left out."""
    return parse_events(attempt.lines(METRICS))


def parse_events(lines: Iterable[str]) -> Iterator[AnyEvent]:
    """Yield the events of lines; what cannot be read is left out."""
    for line in lines:
        try:
            yield parse_event(line)
        except ValueError:
            continue


def _read_model(folder: Folder, name: str, model: type[_File]) -> _File | None:
    try:
        content = folder.read(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise NoRunFolderError(
            f"{folder / name} cannot be read: {where}: {first['msg']}"
        ) from error


def _find_removed(run: Folder, events: Iterable[AnyEvent]) -> frozenset[str]:
    """The paths of checkpoints of a run where nothing lies any more.

    There may be thousands, in a bucket: the folders around them are listed, each of them once. What
    a run says of other places is not asked for: the reader may see what its writer may not.
    """
    siblings: defaultdict[Folder, dict[str, str]] = defaultdict(dict)
    for path in {event.path for event in events if isinstance(event, CheckpointSaved)}:
        if path.startswith(f"{run}/"):
            with contextlib.suppress(ValueError):  # a script may say anything
                folder = open_folder(path)
                siblings[folder.parent][path] = folder.name
    removed: set[str] = set()
    for parent, named in siblings.items():
        with contextlib.suppress(OSError, ValueError):  # what is not known is not said
            there = set(parent.names())
            removed.update(path for path, name in named.items() if name not in there)
    return frozenset(removed)


def _read_galleries(folder: Folder) -> Iterator[Gallery]:
    captions = TypeAdapter(list[Caption])
    sizes = {each.name: each.bytes for each in folder.tree()}
    for name in sorted(sizes):
        if "/" in name or not name.endswith(".json"):
            continue
        try:
            lines = captions.validate_json(folder.read(name))
        except (FileNotFoundError, ValidationError):
            continue
        shown = (_read_picture(folder, line, sizes) for line in lines[:MAX_PICTURES])
        pictures = tuple(picture for picture in shown if picture is not None)
        if pictures:
            yield Gallery(name.removesuffix(".json"), pictures, len(lines))


def _read_picture(folder: Folder, line: Caption, sizes: Mapping[str, int]) -> Picture | None:
    # Only a plain name: a caption file must not be able to pull other files into the report.
    name = PurePath(line.image).name
    if name not in sizes or sizes[name] > MAX_PICTURE_BYTES:
        return None
    try:
        png = folder.read(name)
    except FileNotFoundError:  # a later group of the name has fewer
        return None
    if not png.startswith(PNG_SIGNATURE):
        return None
    return Picture(png, line.caption, line.good, width=int.from_bytes(png[16:20], "big"))
