"""The seam by which a plain Ray Train function sees an earlier attempt's checkpoint.

Ray Train reads `checkpoint_manager_snapshot.json` of its folder and gives the latest checkpoint
named there to `ray.train.get_checkpoint()`. A new attempt has a new folder, so that file is written
beforehand and names a folder of hard links to the earlier checkpoint: Ray's clean-up may delete
those, and never touches another attempt's folder.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import ray
from pydantic import Field, JsonValue, ValidationError

from trainshed.coordinator.reports import reported
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.coordinator.hub import Reported

SNAPSHOT = "checkpoint_manager_snapshot.json"
# Not Ray's own prefix: what lies here was written by another attempt.
LINKED = "resumed_from"


class _Registered(Record):
    """A checkpoint as Ray Train registered it."""

    checkpoint_dir_name: str = Field(alias="checkpoint_dir_name")
    metrics: dict[str, JsonValue] = Field(default_factory=dict)


class _Snapshot(Record):
    """What is read of Ray Train's snapshot file."""

    checkpoint_results: list[_Registered] = Field(default_factory=list, alias="checkpoint_results")
    latest: _Registered | None = Field(default=None, alias="latest_checkpoint_result")


def latest(folder: Path) -> Path | None:
    """Return the latest checkpoint that Ray Train registered below a folder, if it is there."""
    snapshot = _read(folder)
    if snapshot is None or snapshot.latest is None:
        return None
    found = folder / snapshot.latest.checkpoint_dir_name
    return found.resolve() if found.is_dir() else None


def reported_at(checkpoint: Path) -> Reported:
    """Return what was reported together with a checkpoint, as far as its folder tells."""
    return reported(_metrics(checkpoint), str(checkpoint))


def seed(folder: Path, checkpoint: Path) -> None:
    """Let Ray Train start below `folder` with an earlier attempt's checkpoint."""
    linked = folder / LINKED
    if linked.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(checkpoint, linked, copy_function=_link_or_copy)
    metrics = _metrics(checkpoint)
    result = {"version": 0, "checkpoint_dir_name": LINKED, "metrics": metrics}
    snapshot = {
        "ray_version": ray.__version__,
        "checkpoint_results": [result],
        "checkpoint_report_indices": [0],
        "latest_checkpoint_result": result,
        "pending_training_results": [],
        "pending_validation_specs": [],
        "current_report_index": 0,
        "validated_checkpoint_dir_names": [],
        "timed_out_validation_checkpoint_dir_names": [],
        "failed_validation_checkpoint_dir_names": [],
    }
    (folder / SNAPSHOT).write_text(json.dumps(snapshot), encoding="utf-8")


def _metrics(checkpoint: Path) -> dict[str, JsonValue]:
    snapshot = _read(checkpoint.parent)
    known = snapshot.checkpoint_results if snapshot else []
    return next((r.metrics for r in known if r.checkpoint_dir_name == checkpoint.name), {})


def _read(folder: Path) -> _Snapshot | None:
    try:
        return _Snapshot.model_validate_json((folder / SNAPSHOT).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
    return target
