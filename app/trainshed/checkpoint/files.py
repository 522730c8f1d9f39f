"""Checkpoints on storage: written aside, verified, then renamed into place; never half there.

A checkpoint is a folder: the model as its framework's own tools read it (model_file.py), state.pt
(everything else), manifest.json (what must be there, and where training stood).
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from pydantic import Field

from trainshed.checkpoint import model_file
from trainshed.checkpoint.model_file import TORCH, XGBOOST, ModelFile
from trainshed.data.order.description import Described
from trainshed.faults import WorldError, is_passing
from trainshed.patience import READS, Patience
from trainshed.records import durable
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

STATE, MANIFEST = "state.pt", "manifest.json"
FORMAT = 1
# How steps take their rows: which rows are left of an epoch under way hangs on it. Order 1 hung on
# the number of workers and on what a row weighed.
ORDER = 2
PREFIX = "checkpoint_"
# What is under way.
ASIDE = ".writing-"
# Who deletes while others look does so once for each checkpoint that is written.
_MOST_LOOKS = 5
_OURS = re.compile(PREFIX + r"\d{9,}_epoch\d{4,}(-\d+)?")


class Position(Record):
    """Where training stands: finished epochs, steps done of the next one, steps done in all."""

    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0


class StoredFile(Record):
    """What a file of a checkpoint must be."""

    bytes: int
    crc32: int


class Manifest(Record):
    """What a checkpoint says about itself.

    `workers` is the number of ranks whose random state is in it, `metrics` the last known ones,
    `scored` those of these very weights, `data` what rows hang on; None: an earlier release wrote.
    `order` is the order of the rows that steps were taken in.
    """

    format: int = FORMAT
    order: int = 1
    position: Position
    workers: int
    spec_hash: str
    attempt: int
    metrics: dict[str, float]
    scored: frozenset[str] | None = None
    data: dict[str, Described] | None = None
    files: dict[str, StoredFile] = Field(default_factory=dict)

    def own_metrics(self) -> dict[str, float]:
        """Return the metrics of these very weights, as far as it is known which are."""
        if self.scored is None:
            return self.metrics
        return {name: value for name, value in self.metrics.items() if name in self.scored}


class BadCheckpointError(Exception):
    """A checkpoint that cannot be gone on from; the message names the folder and says why."""


class EarlierOrderError(BadCheckpointError):
    """A checkpoint in the middle of an epoch whose rows an earlier release put in order."""


def folder_name(position: Position) -> str:
    """Return the name of a checkpoint's folder; names sort by step."""
    return f"{PREFIX}{position.step:09d}_epoch{position.epoch:04d}"


def is_ours(name: str) -> bool:
    """Say whether a folder's name is one of `folder_name`; Ray Train's functions write others."""
    return bool(_OURS.fullmatch(name))


@dataclass(frozen=True)
class Content:
    """What a checkpoint holds.

    Args:
        kind: how the model is written.
        model: as its framework gives it.
        state: everything else.
    """

    kind: ModelFile
    model: object
    state: object


def write(parent: Path, content: Content, manifest: Manifest, *, trust_objects: bool) -> Path:
    """Write a checkpoint below `parent` and return its folder.

    Raises:
        OSError: when the storage takes no more; nothing is left behind then.
        SpecError: when the state could not be loaded again as the spec is.
    """
    aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=parent))
    try:
        kind, state = content.kind, content.state
        files = {
            kind.name: _save(partial(kind.save, content.model), aside / kind.name),
            STATE: _save(partial(model_file.TORCH.save, state), aside / STATE),
        }
        if not trust_objects:
            from trainshed.checkpoint import trust

            trust.check_plain(aside / STATE)
        whole = manifest.model_copy(update={"files": files})
        text = whole.model_dump_json(by_alias=True, indent=1)
        durable.write_bytes(aside / MANIFEST, text.encode())
        aside.chmod(0o755)  # mkdtemp's 0700 would keep everybody else out
        durable.sync_folder(aside)
        folder = aside.rename(_free_name(parent / folder_name(manifest.position)))
        durable.sync_folder(parent)
        return folder
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def verify(folder: Path, patience: Patience = READS) -> Manifest:
    """Return the manifest of a checkpoint after checking every file.

    Raises:
        BadCheckpointError: when something is missing, short or altered, or its order is another.
        WorldError: when the storage does not give it, which says nothing about it.
    """
    manifest = _usable_manifest(folder, patience)
    for name in {model_name(manifest): 0, STATE: 0} | manifest.files:
        try:
            want = manifest.files[name]
            patience.read(partial(_check_file, folder / name, want))
        except (OSError, KeyError) as error:
            raise _refusal(f"{folder}: {name} is missing ({error})", error) from error
    return manifest


def is_usable(folder: Path) -> bool:
    """Say whether a run could go on from a checkpoint as far as its manifest tells.

    Raises:
        WorldError: when the storage does not give it.
    """
    try:
        _usable_manifest(folder, READS)
    except BadCheckpointError:
        return False
    return True


def hangs_on_order(model: str, position: Position) -> bool:
    """Say whether the rows that are left of an epoch hang on their order; model: its file."""
    # Rounds of boosting look at all rows: no order is in them.
    return bool(position.step_in_epoch) and model != XGBOOST.name


def model_name(manifest: Manifest) -> str:
    """Return the name of the file with the model; that of torch where none is known."""
    return next((name for name in manifest.files if name in model_file.NAMES), TORCH.name)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a checkpoint that was verified; None for a function's own kind."""
    return _manifest(folder, READS) if (folder / MANIFEST).exists() else None


def candidates(parents: Iterable[Path]) -> list[Path]:
    """Return checkpoint folders, newest first: later parents before earlier, then by step."""
    found: list[Path] = []
    for parent in parents:
        ours = (folder for folder in parent.glob(f"{PREFIX}*") if is_ours(folder.name))
        found = sorted(ours, reverse=True) + found
    return found


def find(parent: Path, position: Position) -> tuple[Path, Manifest]:
    """Return the whole checkpoint of a position and its manifest.

    Raises:
        BadCheckpointError: when there is none.
    """
    for folder in candidates([parent]):
        if folder.name.startswith(folder_name(position)):
            with contextlib.suppress(BadCheckpointError):
                manifest = verify(folder)
                if manifest.position == position:
                    return folder, manifest
    raise BadCheckpointError(f"{parent}: no whole checkpoint of step {position.step}")


def newest(
    parents: Iterable[Path], patience: Patience = READS
) -> tuple[Path, Manifest, list[str]] | tuple[None, None, list[str]]:
    """Return the newest whole checkpoint, its manifest, and one line for each refused newer one.

    Raises:
        WorldError: when the storage does not give one: an older one would lose what was trained.
    """
    looked_at = list(parents)
    for looks_left in reversed(range(_MOST_LOOKS)):
        refused: list[str] = []
        for folder in candidates(looked_at):
            try:
                return folder, verify(folder, patience), refused
            except BadCheckpointError as error:
                # Deleted since it was listed, for a newer one: that is looked for.
                if looks_left and not folder.exists():
                    break
                refused.append(f"checkpoint refused, taking the one before: {error}")
        else:
            break
    return None, None, refused


def best(parents: Iterable[Path], metric: str, mode: str) -> tuple[Path, Manifest] | None:
    """Return the checkpoint whose own weights have the highest or lowest metric; of equal ones the
    first.
    """
    found = ranked(parents, metric, mode).scored
    return found[0] if found else None


class Ranking(NamedTuple):
    """Checkpoints by what they scored.

    Args:
        scored: the best first; of equal ones the earlier.
        unread: those of which nothing is known, for their manifests could not be read.
    """

    scored: list[tuple[Path, Manifest]]
    unread: list[Path]


def ranked(parents: Iterable[Path], metric: str, mode: str) -> Ranking:
    """Return the checkpoints whose own weights have a metric.

    Only manifests are read: which one is best is asked for at the end of a run, not loaded.
    """
    scored, unread = [], []
    for place, folder in enumerate(reversed(candidates(parents))):
        try:
            manifest = _manifest(folder, READS)
        except (OSError, ValueError):
            unread.append(folder)
            continue
        own = manifest.own_metrics()
        if metric in own:
            value = -own[metric] if mode == "max" else own[metric]
            scored.append((value, place, folder, manifest))
    scored.sort(key=lambda entry: entry[:2])
    return Ranking([(folder, manifest) for _, _, folder, manifest in scored], unread)


def load(
    folder: Path, kind: ModelFile = TORCH, patience: Patience = READS, *, trust_objects: bool
) -> tuple[object, Mapping[str, object]]:
    """Return (model, state) of a verified checkpoint, on the CPU.

    kind: how the model was written.

    Raises:
        SpecError: when the state holds objects, and nobody said that they are trusted.
    """
    from trainshed.checkpoint import trust

    model = patience.read(partial(_load, folder / kind.name, kind.load))
    if not trust_objects:
        patience.read(partial(trust.check_plain, folder / STATE))
    read = _load_objects if trust_objects else TORCH.load
    state = patience.read(partial(_load, folder / STATE, read))
    return model, cast("Mapping[str, object]", state)


def _load(file: Path, read: Callable[[BinaryIO], object]) -> object:
    with file.open("rb") as opened:
        return read(opened)


def _load_objects(file: BinaryIO) -> object:
    import torch

    return torch.load(file, map_location="cpu", weights_only=False)


def _usable_manifest(folder: Path, patience: Patience) -> Manifest:
    try:
        manifest = _manifest(folder, patience)
    except (OSError, ValueError) as error:
        raise _refusal(f"{folder}: no readable {MANIFEST} ({error})", error) from error
    if hangs_on_order(model_name(manifest), manifest.position) and manifest.order != ORDER:
        raise EarlierOrderError(
            f"{folder}: written in the middle of epoch {manifest.position.epoch + 1} by an earlier "
            "release, whose steps had other rows"
        )
    return manifest


def _manifest(folder: Path, patience: Patience) -> Manifest:
    text = patience.read(lambda: (folder / MANIFEST).read_text(encoding="utf-8"))
    return Manifest.model_validate_json(text)


def _refusal(message: str, error: Exception) -> Exception:
    """Return what a failed read says: nothing of a checkpoint where it is the storage's fault."""
    return WorldError(message, "storage") if is_passing(error) else BadCheckpointError(message)


def _save(write_to: Callable[[BinaryIO], None], target: Path) -> StoredFile:
    with durable.Summed(target.open("wb", buffering=0)) as file:
        try:
            write_to(file)
        except RuntimeError as error:
            # What the file refuses reaches us as torch's complaint about its own positions.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
        durable.sync(file)
    return StoredFile(bytes=file.bytes, crc32=file.crc32)


def _free_name(target: Path) -> Path:
    """Return the name, with a number where a checkpoint that was refused has it already."""
    number, free = 1, target
    while free.exists():
        number += 1
        free = target.with_name(f"{target.name}-{number}")
    return free


def _check_file(file: Path, want: StoredFile) -> None:
    if _size(file) != want.bytes:
        text = f"{file.name} has {_size(file)} of {want.bytes} bytes"
        raise BadCheckpointError(f"{file.parent}: {text}")
    if _crc(file) != want.crc32:
        text = f"{file.name} does not have the content that was written"
        raise BadCheckpointError(f"{file.parent}: {text}")


def _size(file: Path) -> int:
    return file.stat().st_size


def _crc(file: Path) -> int:
    value = 0
    with file.open("rb") as opened:
        while chunk := opened.read(2**22):
            value = zlib.crc32(chunk, value)
    return value
