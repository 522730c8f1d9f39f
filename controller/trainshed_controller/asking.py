"""What of a run only a Ray head knows: which question it is to be asked, if any. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_controller.model import Key
from trainshed_controller.question import Question
from trainshed_controller.release import cluster_of_attempt, must_stop

if TYPE_CHECKING:
    from typing import Literal

    from trainshed_api.status import AttemptStatus
    from trainshed_controller.model import Observed, RunView, Settings

# A driver posts every five seconds; one that is silent for so long may be gone.
SILENT_SECONDS = 60.0


def is_heard(seen: Observed) -> bool:
    """Return whether the newest attempt's driver posts snapshots, and has not posted its end."""
    heard = seen.heard.num_snapshots > 0 and seen.heard.silent_seconds < SILENT_SECONDS
    return heard and seen.snapshot is not None and seen.snapshot.state != "Ended"


def question_of(view: RunView, seen: Observed, settings: Settings) -> Question | None:
    """Return what has to be asked about an attempt, given all else that is seen of the run."""
    newest = view.status.attempts[-1] if view.status.attempts else None
    if newest is None:
        return None
    kind = _kind(newest, seen, settings) if newest.outcome is None else None
    asked: AttemptStatus | None = newest
    if kind is None:
        kind, asked = "stop", must_stop(view, seen)
    if asked is None:
        return None
    cluster = cluster_of_attempt(seen.ray_job if asked is newest else None, asked)
    if not cluster:
        return None
    key = Key("run", view.namespace, view.name)
    return Question(kind, key, view.uid, asked.number, cluster, asked.job_id)


def _kind(
    newest: AttemptStatus, seen: Observed, settings: Settings
) -> Literal["is over", "stop", "last word"] | None:
    """Return what has to be asked about an open attempt."""
    job = seen.ray_job
    if job is None:
        return None
    if job.is_terminal and not is_heard(seen):
        heard_all = seen.snapshot is not None and seen.snapshot.state == "Ended"
        return "last word" if job.job_status and not heard_all else None
    is_silent = (
        newest.start_time is not None
        and bool(settings.progress_url)
        and seen.heard.silent_seconds >= SILENT_SECONDS
    )
    return "is over" if is_silent and not job.deleting else None
