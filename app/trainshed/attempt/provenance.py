"""run.json: what ran, from which spec, code and data."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed import __version__
from trainshed.planning import code
from trainshed_api.records import DataRecord, GitState, MachineRecord, RunRecord

if TYPE_CHECKING:
    from trainshed.planning.preflight import Prepared


def run_record(prepared: Prepared, home: Path | None, started: float) -> RunRecord:
    """Return the record of a run that is about to start.

    Args:
        prepared: the run.
        home: the folder below which runs lie, where it is on a disk.
        started: when this process began, seconds since 1970; wall times count from then.
    """
    machine = prepared.machine
    return RunRecord(
        name=prepared.run.metadata.name,
        spec_hash=prepared.spec_hash,
        spec=prepared.spec.to_dict(),
        versions={
            "python": platform.python_version(),
            "ray": importlib.metadata.version("ray"),
            "torch": importlib.metadata.version("torch"),
            "trainshed": __version__,
        },
        git=git_state(home) if home else None,
        code=code.digests(Path.cwd(), prepared.command),
        machine=MachineRecord(cpus=machine.cpus, memory_bytes=machine.memory, gpus=machine.gpus),
        data={
            name: DataRecord(
                rows=plan.source.rows,
                bytes=plan.source.num_bytes,
                files=len(plan.source.files),
                fingerprint=plan.source.fingerprint,
            )
            for name, plan in prepared.plans.items()
            if plan.source
        },
        shuffle={name: plan.spec.shuffle for name, plan in prepared.plans.items()},
        created_at=datetime.fromtimestamp(started, UTC),
    )


def git_state(folder: Path) -> GitState | None:
    """Return the commit of the folder; None where it is in no repository or git is not there."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return GitState(commit=commit, dirty=bool(_git(folder, "status", "--porcelain")))


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
