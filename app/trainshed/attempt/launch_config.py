"""The settings of an attempt: the run, where it runs, and the checkpoint that it resumes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.planning.preflight import Prepared, RunLocation
    from trainshed.storage.folder import Folder


@dataclass(frozen=True)
class Launch:
    """What one attempt needs beside the prepared run.

    Args:
        prepared: the run.
        place: where it runs.
        resume_from: checkpoint of an earlier attempt, or None.
        notes: lines to show first.
        started: when this process began, seconds since 1970.
        planned: when its checks began, after the imports of this process.
    """

    prepared: Prepared
    place: RunLocation
    resume_from: Folder | None
    notes: Sequence[str]
    started: float
    planned: float = 0.0
