"""The seam by which a plain Ray Train function sees an earlier attempt's checkpoint.

Ray Train reads `checkpoint_manager_snapshot.json` of its folder and gives the latest checkpoint named
there to `ray.train.get_checkpoint()`. A new attempt has a new folder, so that file is written beforehand
and names a folder of hard links to the earlier checkpoint: Ray's clean-up may delete those, and never
touches another attempt's folder.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import ray

if TYPE_CHECKING:
    from pathlib import Path

SNAPSHOT = "checkpoint_manager_snapshot.json"
# Not Ray's own prefix: what lies here was written by another attempt.
LINKED = "resumed_from"


def latest(folder: Path) -> Path | None:
    """Return the latest checkpoint that Ray Train registered below a folder, if it is still there."""
    try:
        snapshot = json.loads((folder / SNAPSHOT).read_text(encoding="utf-8"))
        name = snapshot["latest_checkpoint_result"]["checkpoint_dir_name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    found = folder / str(name)
    return found.resolve() if found.is_dir() else None


def seed(folder: Path, checkpoint: Path) -> None:
    """Let Ray Train start below `folder` with an earlier attempt's checkpoint."""
    linked = folder / LINKED
    if linked.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(checkpoint, linked, copy_function=_link_or_copy)
    result = {"version": 0, "checkpoint_dir_name": LINKED, "metrics": {}}
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


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
    return target
