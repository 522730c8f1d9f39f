"""Read the files that a run left behind into frozen values.

The only place of the report that reads files. It takes what it finds: a run that is still going,
a line cut off by a kill, an attempt that never began.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from trainshed.records import figures
from trainshed.records import folder as folders
from trainshed.records.figures import Confusion, Importance
from trainshed_api.progress import AnyEvent, Finished, Record, Started, parse_event
from trainshed_api.records import ResultRecord, RunRecord

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
class Attempt:
    """What one attempt reported, in order."""

    number: int
    events: tuple[AnyEvent, ...]

    @property
    def started(self) -> Started | None:
        """The first event of an attempt that got as far as training."""
        return next((event for event in self.events if isinstance(event, Started)), None)

    @property
    def finished(self) -> Finished | None:
        """The last event of an attempt that ended by itself."""
        return next((event for event in self.events if isinstance(event, Finished)), None)


@dataclass(frozen=True)
class RunFolder:
    """Everything known about one run. `result` is None while the run has not ended."""

    folder: Path
    provenance: RunRecord
    result: ResultRecord | None
    attempts: tuple[Attempt, ...]
    galleries: tuple[Gallery, ...]
    figures: tuple[Importance | Confusion, ...] = ()


def read_run(folder: Path) -> RunFolder:
    """Everything in the folder of the run in `folder`.

    Raises NoRunFolderError where there is no run.json, or a run.json or result.json is not ours.
    """
    # A fresh start is another training under the same name: what lies before it is not shown.
    lineage = set(folders.RunFolder(folder).lineage())
    numbered = sorted(entry for entry in _attempt_folders(folder) if entry[0] in lineage)
    attempts = tuple(
        Attempt(number, tuple(read_events(path / "metrics.jsonl"))) for number, path in numbered
    )
    result = _read_model(folder / "result.json", ResultRecord)
    if result is not None and any(a.number > result.attempt for a in attempts):
        # The result is that of an earlier attempt, and a newer one is under way.
        result = None
    provenance = _read_model(folder / "run.json", RunRecord)
    if provenance is None:
        raise NoRunFolderError(
            f"{folder} is not the folder of a run: it has no run.json;"
            " give the folder that `trainshed run` named, <storage>/local/<name>"
        )
    galleries: dict[str, Gallery] = {}
    drawn: dict[str, Importance | Confusion] = {}
    for _, path in numbered:
        galleries.update((gallery.name, gallery) for gallery in _read_galleries(path / "examples"))
        drawn.update((figure.name, figure) for figure in figures.read(path))
    shown = tuple(galleries.values())
    return RunFolder(folder, provenance, result, attempts, shown, tuple(drawn.values()))


def read_events(path: Path) -> Iterator[AnyEvent]:
    """The events of one metrics.jsonl; what cannot be read is left out."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                yield parse_event(line)
            except ValueError:
                continue


def _attempt_folders(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in (folder / "attempts").glob("*"):
        if re.fullmatch("[0-9]{1,9}", path.name) and path.is_dir():
            yield int(path.name), path


def _read_model(path: Path, model: type[_File]) -> _File | None:
    if not path.is_file():
        return None
    try:
        return model.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise NoRunFolderError(f"{path} cannot be read: {where}: {first['msg']}") from error


def _read_galleries(folder: Path) -> Iterator[Gallery]:
    captions = TypeAdapter(list[Caption])
    for path in sorted(folder.glob("*.json")):
        try:
            lines = captions.validate_json(path.read_bytes())
        except ValidationError:
            continue
        shown = (_read_picture(folder, line) for line in lines[:MAX_PICTURES])
        pictures = tuple(picture for picture in shown if picture is not None)
        if pictures:
            yield Gallery(path.stem, pictures, len(lines))


def _read_picture(folder: Path, line: Caption) -> Picture | None:
    # Only a plain name: a caption file must not be able to pull other files into the report.
    path = folder / Path(line.image).name
    if not path.is_file() or path.stat().st_size > MAX_PICTURE_BYTES:
        return None
    png = path.read_bytes()
    if not png.startswith(PNG_SIGNATURE):
        return None
    return Picture(png, line.caption, line.good, width=int.from_bytes(png[16:20], "big"))
