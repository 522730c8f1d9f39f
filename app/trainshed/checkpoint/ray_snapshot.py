"""Lets a plain Ray Train function see an earlier attempt's checkpoint.

Ray Train reads `checkpoint_manager_snapshot.json` in its folder and returns the latest checkpoint
from `ray.train.get_checkpoint()`. A new attempt has a new folder, so this module writes that file
first, with a second name for the earlier checkpoint: Ray's clean-up may delete that name and never
touches another attempt's folder.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import ray
from pydantic import Field, JsonValue, ValidationError

from trainshed.checkpoint import pass_counter
from trainshed.coordinator.ray_reports import reported
from trainshed.failures import InfrastructureError, is_passing
from trainshed.retry import READS
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from trainshed.coordinator.run_state import Reported
    from trainshed.storage.folder import Folder

SNAPSHOT = "checkpoint_manager_snapshot.json"
# Not Ray's prefix: another attempt wrote what is below it.
LINKED = "resumed_from"


class _Registered(Record):
    """A checkpoint that Ray Train has registered."""

    checkpoint_dir_name: str = Field(alias="checkpoint_dir_name")
    metrics: dict[str, JsonValue] = Field(default_factory=dict)


class _Snapshot(Record):
    """The fields of Ray Train's snapshot file that are read."""

    checkpoint_results: list[_Registered] = Field(default_factory=list, alias="checkpoint_results")
    latest: _Registered | None = Field(default=None, alias="latest_checkpoint_result")


def latest(folder: Folder) -> Folder | None:
    """Return the latest checkpoint that Ray Train registered below a folder, if it exists.

    Raises:
        InfrastructureError: if the storage does not answer: without it training would be lost.
    """
    snapshot = _read(folder)
    if snapshot is None or snapshot.latest is None:
        return None
    found = folder / snapshot.latest.checkpoint_dir_name
    return found if READS.read(found.exists) else None


def reported_at(checkpoint: Folder) -> Reported:
    """Return the metrics that were reported with a checkpoint, if its folder has them."""
    return reported(_metrics(checkpoint), str(checkpoint))


def seed(folder: Folder, checkpoint: Folder) -> None:
    """Make Ray Train start below `folder` with an earlier attempt's checkpoint."""
    if (folder / LINKED).exists():
        return
    folder.take(checkpoint, LINKED)
    if done := pass_counter.read(checkpoint):  # this attempt may end before it reports its own
        pass_counter.write(folder / LINKED, done)
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
    folder.write(SNAPSHOT, json.dumps(snapshot).encode())


def _metrics(checkpoint: Folder) -> dict[str, JsonValue]:
    snapshot = _read(checkpoint.parent)
    known = snapshot.checkpoint_results if snapshot else []
    return next((r.metrics for r in known if r.checkpoint_dir_name == checkpoint.name), {})


def _read(folder: Folder) -> _Snapshot | None:
    try:
        return _Snapshot.model_validate_json(READS.read(lambda: folder.read(SNAPSHOT)))
    except ValidationError:
        return None
    except OSError as error:
        if is_passing(error) or isinstance(error, PermissionError):
            raise InfrastructureError(
                f"{folder}: no readable {SNAPSHOT} ({error})", "storage"
            ) from error
        return None
