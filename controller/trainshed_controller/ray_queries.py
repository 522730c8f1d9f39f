"""What of a run only a Ray head knows, which question it is asked, and what it answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trainshed_controller.model import SILENT_SECONDS, Key
from trainshed_controller.release import cluster_of_attempt, must_stop

if TYPE_CHECKING:
    from trainshed_api.snapshot import Snapshot
    from trainshed_api.status import AttemptStatus
    from trainshed_controller.model import Observed, RunView, Settings

QuestionKind = Literal["is over", "stop", "last word"]


@dataclass(frozen=True)
class Question:
    """What only the head of a RayCluster knows of an attempt's job.

    is over: whether it runs no more. stop: the same, after it was asked to stop. last word: the
    snapshot that its driver's log ends with. uid: of the run; of the RayJob where the run is gone.
    """

    kind: QuestionKind
    run: Key
    uid: str
    attempt: int
    cluster: str
    job_id: str


@dataclass(frozen=True)
class RaysWord:
    """What a head said to a question; all None if nobody answered, or it does not know."""

    over: bool | None = None
    last_word: Snapshot | None = None


def question_of(view: RunView, seen: Observed, settings: Settings) -> Question | None:
    """Return what has to be asked about an attempt, given all else that is seen of the run."""
    newest = view.status.attempts[-1] if view.status.attempts else None
    if newest is None:
        return None
    kind = _kind(newest, seen, settings) if newest.outcome is None else None
    asked: AttemptStatus | None = newest
    if kind is None:
        kind, asked = "stop", must_stop(view.status, seen)
    if asked is None:
        return None
    cluster = cluster_of_attempt(seen.ray_job if asked is newest else None, asked)
    if not cluster:
        return None
    key = Key("run", view.namespace, view.name)
    return Question(kind, key, view.uid, asked.number, cluster, asked.job_id)


def _kind(newest: AttemptStatus, seen: Observed, settings: Settings) -> QuestionKind | None:
    """Return what has to be asked about an open attempt."""
    job = seen.ray_job
    if job is None:
        return None
    if job.is_terminal and not seen.is_heard:
        heard_all = seen.snapshot is not None and seen.snapshot.state == "Ended"
        return "last word" if job.job_status and not heard_all else None
    is_silent = (
        newest.start_time is not None
        and bool(settings.progress_url)
        and seen.heard.silent_seconds >= SILENT_SECONDS
    )
    return "is over" if is_silent and not job.deleting else None
