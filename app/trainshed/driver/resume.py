"""Whether a run is the one that its folder holds, whether it is over, and where it goes on."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.checkpoint import files as checkpoint
from trainshed.checkpoint import ray_snapshot
from trainshed.data.order import description
from trainshed.plan.preflight import Prepared, local_path
from trainshed_api.errors import Problem, SpecError
from trainshed_api.names import SUCCEEDED
from trainshed_api.records import ResultRecord, RunRecord
from trainshed_api.spechash import diff, hashed_part
from trainshed_api.v1alpha1 import TrainingRunSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainshed.records.folder import RunFolder


def check_same_run(prepared: Prepared) -> None:
    """Refuse to go on in a folder that holds another run.

    Raises:
        SpecError: with what differs, naming --fresh.
    """
    record = read_record(prepared.folder)
    if record is None or record.spec_hash == prepared.spec_hash:
        return
    old = hashed_part(TrainingRunSpec.model_validate(record.spec))
    lines = "; ".join(diff(old, hashed_part(prepared.spec)))
    if not lines:
        return  # only what sets speed was changed
    want = f"the spec that this run was started with, or --fresh to start anew. It differs: {lines}"
    raise SpecError([Problem("spec", f"another spec than {prepared.folder.path} holds", want)])


def read_record(folder: RunFolder) -> RunRecord | None:
    """Return run.json; None when there is none that can be read."""
    return _read(folder.record)


def _read(file: Path) -> RunRecord | None:
    try:
        return RunRecord.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def finished(prepared: Prepared) -> ResultRecord | None:
    """Return the result of a run that is over with all its epochs.

    A result from before the last fresh start is that of another training.
    """
    try:
        text = prepared.folder.result.read_text(encoding="utf-8")
        result = ResultRecord.model_validate_json(text)
    except (OSError, ValidationError):
        return None
    if result.outcome != SUCCEEDED or result.attempt not in prepared.folder.lineage():
        return None
    return result if (prepared.spec.epochs or 0) <= (result.epochs or 0) else None


def choose(prepared: Prepared, home: Path, fresh: bool) -> tuple[Path | None, Sequence[str]]:
    """Return the checkpoint that the next attempt goes on from, and what was refused on the way.

    Where a path is named a run starts from that, and goes on from what it made of it.

    Raises:
        SpecError: when `checkpoint.resume` names a path that is no whole checkpoint.
    """
    wanted, folder = prepared.spec.checkpoint.resume, prepared.folder
    if wanted == "never" or (fresh and wanted == "latest"):
        return None, ()
    if wanted == "latest":
        return _latest(folder, folder.lineage())
    found, refused = _latest(folder, [] if fresh else _attempts_from(wanted, folder))
    return found or _named(local_path(wanted, home, "spec.checkpoint.resume")), refused


def _latest(folder: RunFolder, attempts: Sequence[int]) -> tuple[Path | None, Sequence[str]]:
    folders = [folder.checkpoints(number) for number in attempts]
    found, _, refused = checkpoint.newest(folders)
    if found is None:  # a plain Ray Train function writes checkpoints of its own kind
        registered = (ray_snapshot.latest(folder) for folder in reversed(folders))
        found = next((path for path in registered if path), None)
    return found, refused


def _attempts_from(wanted: str, folder: RunFolder) -> list[int]:
    """Return the last attempts, as far back as they began with this `checkpoint.resume`."""

    def began_so(number: int) -> bool:
        record = _read(folder.attempt(number) / folder.record.name)
        told = record.spec.get("checkpoint") if record else None
        return isinstance(told, dict) and told.get("resume") == wanted

    return list(takewhile(began_so, reversed(folder.lineage())))[::-1]


def keep_order(prepared: Prepared, found: Path | None) -> tuple[Prepared, Sequence[str]]:
    """Return the run with rows ordered as its checkpoint had them, and what is said of others.

    Raises:
        SpecError: when its rows are others now, and an epoch is under way; it names --fresh.
    """
    manifest = checkpoint.read_manifest(found) if found else None
    if manifest is None or manifest.data is None:  # a function's own kind, an earlier release's
        return prepared, ()
    mid_epoch = manifest.position.step_in_epoch > 0
    plans, notes = description.keep_order(prepared.plans, manifest.data, mid_epoch=mid_epoch)
    return replace(prepared, plans=plans), notes


def _named(path: Path) -> Path:
    try:
        checkpoint.verify(path)
    except checkpoint.BadCheckpointError as error:
        want = f"latest, never or the path of a checkpoint ({error})"
        raise SpecError([Problem("spec.checkpoint.resume", str(path), want)]) from error
    return path
