"""Checkpoints on storage: written to a temporary folder, verified, then published atomically.

A checkpoint is a folder: each model in its framework's format (model_file.py), state.pt
(everything else), and manifest.json (sizes and checksums, and the position of training).
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from trainshed.checkpoint import model_file
from trainshed.checkpoint.manifest import FORMAT, MODEL, Manifest, StoredFile
from trainshed.checkpoint.model_file import TORCH, XGBOOST, ModelFile
from trainshed.data.sampler.permutation import ORDER, SAME_SLOTS
from trainshed.failures import InfrastructureError, is_passing
from trainshed.retry import READS, RetryPolicy
from trainshed.storage import durable_files
from trainshed.storage.disk import Disk
from trainshed.storage.folder import UNDERWAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from trainshed.checkpoint.manifest import Position
    from trainshed.storage.folder import Folder

STATE, MANIFEST = "state.pt", "manifest.json"
# The new name of the manifest of a checkpoint that was found damaged.
DAMAGED = "damaged.json"
PREFIX = "checkpoint_"
# Listing and deleting race once per written checkpoint.
_MOST_LOOKS = 5
_OURS = re.compile(PREFIX + r"\d{9,}_epoch\d{4,}(-\d+)?")


class BadCheckpointError(Exception):
    """A checkpoint that cannot be resumed from; the message names the folder and the reason."""


class DamagedError(BadCheckpointError):
    """A checkpoint whose files do not have the content that was written."""


class OtherOrderError(BadCheckpointError):
    """A checkpoint in the middle of an epoch whose row order this release does not know."""


def folder_name(position: Position) -> str:
    """Return the name of a checkpoint's folder; names sort by step."""
    return f"{PREFIX}{position.step:09d}_epoch{position.epoch:04d}"


def is_ours(name: str) -> bool:
    """Return whether `folder_name` made a folder's name; Ray Train's functions write others."""
    return bool(_OURS.fullmatch(name))


@dataclass(frozen=True)
class Content:
    """The content of a checkpoint.

    Args:
        kind: file format of the models.
        models: by name, as the framework returns them.
        state: everything else.
    """

    kind: ModelFile
    models: Mapping[str, object]
    state: object


def write(parent: Folder, content: Content, manifest: Manifest, *, trust_objects: bool) -> Folder:
    """Write a checkpoint below `parent` and return its folder.

    Raises:
        OSError: if the storage is full or refuses it; nothing is left behind then.
        SpecError: if the spec would not allow loading the state.
    """
    with parent.aside() as made:
        make(made, content, manifest, trust_objects=trust_objects)
        return put(parent, made, manifest.position)


def make(aside: Path, content: Content, manifest: Manifest, *, trust_objects: bool) -> None:
    """Write the files of a checkpoint into a local folder; raises as `write` does."""
    kind = content.kind
    files = {
        file: _save(partial(kind.save, model), aside / file)
        for file, model in ((kind.file_of(name), model) for name, model in content.models.items())
    }
    files[STATE] = _save(partial(TORCH.save, content.state), aside / STATE)
    if not trust_objects:
        from trainshed.checkpoint import trust

        trust.check_plain(aside / STATE)
    whole = manifest.model_copy(update={"files": files})
    text = whole.model_dump_json(by_alias=True, indent=1)
    durable_files.write_bytes(aside / MANIFEST, text.encode())


def put(parent: Folder, made: Path, position: Position) -> Folder:
    """Publish a checkpoint to the storage, and return its folder there.

    Raises:
        OSError: if the storage is full or refuses it; nothing of it is visible there then.
    """
    return parent.adopt(made, folder_name(position), last=MANIFEST)


def verify(folder: Folder, retry_policy: RetryPolicy = READS) -> Manifest:
    """Return the manifest of a checkpoint after checking every file.

    In a bucket only sizes are checked; the content is checked when it is fetched.

    Raises:
        BadCheckpointError: if a file is missing, short or altered, or the row order differs.
        InfrastructureError: if the storage does not answer, which says nothing about the
            checkpoint.
    """
    manifest = _usable_manifest(folder, retry_policy)
    for name in dict.fromkeys((*model_files(manifest).values(), STATE, *manifest.files)):
        try:
            expected = manifest.files[name]
            retry_policy.read(partial(_check_file, folder, name, expected))
        except (OSError, KeyError) as error:
            raise _refusal(f"{folder}: {name} is missing ({error})", error) from error
    return manifest


def pass_over(folder: Folder) -> None:
    """Exclude a damaged checkpoint from selection; its files stay, for repair.

    Raises:
        OSError: if the storage refuses it.
    """
    try:
        manifest = folder.read(MANIFEST)
    except FileNotFoundError:  # another rank was faster
        return
    folder.write(DAMAGED, manifest)
    folder.delete(MANIFEST)


def check_not_passed_over(folder: Folder) -> None:
    """Refuse a checkpoint that was marked as damaged.

    Raises:
        DamagedError: naming it.
    """
    if READS.read(lambda: folder.stat(DAMAGED)):
        raise DamagedError(f"{folder}: was found damaged; {DAMAGED} has the manifest")


def is_usable(folder: Folder) -> bool:
    """Return whether the manifest of a checkpoint allows resuming from it.

    Raises:
        InfrastructureError: if the storage does not answer.
    """
    try:
        _usable_manifest(folder, READS)
    except BadCheckpointError:
        return False
    return True


def hangs_on_order(model: str, position: Position) -> bool:
    """Return whether the remaining rows of an epoch depend on their order; model: its file."""
    # A round of boosting reads all rows, so their order does not matter.
    return bool(position.step_in_epoch) and model != XGBOOST.name


def model_files(manifest: Manifest) -> dict[str, str]:
    """Return the file of each model that has one, by the model's name; the first model first."""
    if manifest.objects is None:
        file = next((name for name in manifest.files if name in model_file.NAMES), TORCH.name)
        return {MODEL: file}
    return {
        name: file
        for name, each in manifest.objects.items()
        for file in each.files[:1]
        if each.kind == "model" and file != STATE
    }


def model_name(manifest: Manifest) -> str:
    """Return the name of the first model's file; torch's if no model has one."""
    return next(iter(model_files(manifest).values()), TORCH.name)


def read_manifest(folder: Folder) -> Manifest | None:
    """Return the manifest of a verified checkpoint; None for a function's own kind."""
    return _manifest(folder, READS) if is_of_run(folder) else None


def is_of_run(folder: Folder) -> bool:
    """Return whether Trainshed wrote a checkpoint, not the user's function."""
    return READS.read(lambda: folder.stat(MANIFEST)) is not None


def candidates(parents: Iterable[Folder], *, with_damaged: bool = True) -> list[Folder]:
    """Return checkpoint folders, newest first: by parent, then by step.

    Checkpoints in progress, and those that a kill interrupted, are not included.

    Args:
        parents: in order.
        with_damaged: whether to include those that were marked as damaged.
    """
    marks = {MANIFEST, DAMAGED} if with_damaged else {MANIFEST}
    found: list[Folder] = []
    for parent in parents:
        names = sorted(READS.read(partial(_listed, parent, marks)), reverse=True)
        found = [parent / name for name in names] + found
    return found


def _listed(parent: Folder, marks: set[str]) -> list[str]:
    if parent.path:
        return [name for name in parent.names() if is_ours(name)]
    there = _files_by_folder(parent)
    return [name for name in there if is_ours(name) and there[name] & marks]


def find(parent: Folder, position: Position) -> tuple[Folder, Manifest]:
    """Return the complete checkpoint of a position, and its manifest.

    Raises:
        BadCheckpointError: if there is none.
    """
    for folder in candidates([parent]):
        if folder.name.startswith(folder_name(position)):
            with contextlib.suppress(BadCheckpointError):
                manifest = verify(folder)
                if manifest.position == position:
                    return folder, manifest
    raise BadCheckpointError(f"{parent}: no complete checkpoint of step {position.step}")


def newest(
    parents: Iterable[Folder], retry_policy: RetryPolicy = READS
) -> tuple[Folder, Manifest, list[str]] | tuple[None, None, list[str]]:
    """Return the newest complete checkpoint, its manifest, and one line per refused newer one.

    Raises:
        InfrastructureError: if the storage does not answer: an older one would lose training.
    """
    looked_at = list(parents)
    for looks_left in reversed(range(_MOST_LOOKS)):
        refused: list[str] = []
        listed = candidates(looked_at)
        for folder in listed:
            try:
                return folder, verify(folder, retry_policy), refused
            except BadCheckpointError as error:
                # Deleted since the listing, for a newer one: list again.
                if looks_left and candidates(looked_at) != listed:
                    break
                refused.append(f"checkpoint refused, trying the one before it: {error}")
        else:
            break
    return None, None, refused


def half_written(parents: Iterable[Folder]) -> list[Folder]:
    """Return folders that are being written or deleted, or were when their process ended."""
    return [folder for parent in parents for folder in READS.read(partial(_half_written, parent))]


def _half_written(parent: Folder) -> list[Folder]:
    if isinstance(parent, Disk):  # unfinished folders have hidden names there
        return parent.unfinished()
    # In a bucket the mark is not enough: uploads of a killed process may arrive after everything
    # was deleted, mark included. A folder with a manifest is complete, whatever else it has.
    return [
        parent / name
        for name, files in _files_by_folder(parent).items()
        # It was written completely, even if it is damaged by now.
        if not files & {MANIFEST, DAMAGED} and (UNDERWAY in files or is_ours(name))
    ]


def _files_by_folder(parent: Folder) -> dict[str, set[str]]:
    found = defaultdict[str, set[str]](set)
    for each in parent.tree():
        folder, _, name = each.name.partition("/")
        found[folder].add(name)
    return found


def best(parents: Iterable[Folder], metric: str, mode: str) -> tuple[Folder, Manifest] | None:
    """Return the checkpoint whose own weights have the best metric; the first of equal
    ones.
    """
    found = ranked(parents, metric, mode).scored
    return found[0] if found else None


class Ranking(NamedTuple):
    """Checkpoints by score.

    Args:
        scored: best first; of equal ones the earlier first.
        unread: those whose manifests could not be read.
    """

    scored: list[tuple[Folder, Manifest]]
    unread: list[Folder]


def ranked(parents: Iterable[Folder], metric: str, mode: str) -> Ranking:
    """Return the checkpoints whose own weights have a score for a metric.

    Reads manifests only: the best checkpoint is named at the end of a run, not loaded.
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
    local_checkpoint: Path,
    kind: ModelFile = TORCH,
    retry_policy: RetryPolicy = READS,
    *,
    trust_objects: bool,
) -> dict[str, object]:
    """Return all states of a verified checkpoint, by name, on the CPU; `random` is among them.

    Args:
        local_checkpoint: its files on this machine's disk.
        kind: file format of the models.
        retry_policy: for reading.
        trust_objects: whether the state may hold more than plain values.

    Raises:
        SpecError: if the state holds objects and the spec does not trust them.
    """
    import torch

    from trainshed.checkpoint import trust

    manifest = Manifest.model_validate_json(
        retry_policy.read((local_checkpoint / MANIFEST).read_bytes)
    )
    models = {
        name: retry_policy.read(partial(_load, local_checkpoint / file, kind.load))
        for name, file in model_files(manifest).items()
    }
    if not trust_objects:
        retry_policy.read(partial(trust.check_plain, local_checkpoint / STATE))
    any_values = partial(torch.load, map_location="cpu", weights_only=False)
    read = any_values if trust_objects else TORCH.load
    state = retry_policy.read(partial(_load, local_checkpoint / STATE, read))
    return {**cast("Mapping[str, object]", state), **models}


def _load(file: Path, read: Callable[[BinaryIO], object]) -> object:
    with file.open("rb") as opened:
        return read(opened)


def _usable_manifest(folder: Folder, retry_policy: RetryPolicy) -> Manifest:
    try:
        manifest = _manifest(folder, retry_policy)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            check_not_passed_over(folder)
        raise _refusal(f"{folder}: no readable {MANIFEST} ({error})", error) from error
    if manifest.format > FORMAT:
        raise BadCheckpointError(
            f"{folder}: its manifest has format {manifest.format}, which a later release wrote; "
            f"this one reads up to {FORMAT}"
        )
    known = SAME_SLOTS <= manifest.order <= ORDER
    if hangs_on_order(model_name(manifest), manifest.position) and not known:
        which = "an earlier" if manifest.order < ORDER else "a later"
        raise OtherOrderError(
            f"{folder}: written in the middle of epoch {manifest.position.epoch + 1} by {which} "
            "release, whose steps had other rows"
        )
    return manifest


def _manifest(folder: Folder, retry_policy: RetryPolicy) -> Manifest:
    return Manifest.model_validate_json(retry_policy.read(lambda: folder.read(MANIFEST)))


def _refusal(message: str, error: Exception) -> Exception:
    """Return the error for a failed read: the storage's, or the checkpoint's."""
    # Expired credentials say nothing about the checkpoint: an older one would lose training.
    is_withheld = is_passing(error) or isinstance(error, PermissionError)
    return InfrastructureError(message, "storage") if is_withheld else BadCheckpointError(message)


def _save(write_to: Callable[[BinaryIO], None], target: Path) -> StoredFile:
    with durable_files.ChecksumWriter(target.open("wb", buffering=0)) as file:
        try:
            write_to(file)
        except RuntimeError as error:
            # torch reports refused content as an error about its own positions.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
        durable_files.sync(file)
    return StoredFile(bytes=file.bytes, crc32=file.crc32)


def _check_file(folder: Folder, name: str, expected: StoredFile) -> None:
    found = folder.stat(name)
    if found is None:
        raise FileNotFoundError(name)
    if found.bytes != expected.bytes:
        text = f"{name} has {found.bytes} of {expected.bytes} bytes"
        raise BadCheckpointError(f"{folder}: {text}")
    if folder.path:
        check_content(folder.path / name, expected, str(folder))


def check_content(file: Path, expected: StoredFile, where: str) -> None:
    """Check that a file on a disk has the content that was written.

    Raises:
        DamagedError: naming `where`, the location of the checkpoint.
    """
    if (file.stat().st_size, _crc(file)) != (expected.bytes, expected.crc32):
        text = f"{file.name} does not have the content that was written"
        raise DamagedError(f"{where}: {text}")


def _crc(file: Path) -> int:
    value = 0
    with file.open("rb") as opened:
        while chunk := opened.read(2**22):
            value = zlib.crc32(chunk, value)
    return value
