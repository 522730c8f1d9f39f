"""What a head is asked about a run, and when it is not asked."""

from dataclasses import dataclass, replace

import pytest

from tests.controller.builders_view import (
    NOW,
    SETTINGS,
    UID,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
)
from trainshed_api.status import AttemptStatus, TrainingRunStatus
from trainshed_controller.model import SILENT_SECONDS, Heard, Key, Observed, RunView
from trainshed_controller.ray_queries import Question, question_of

OPEN = AttemptStatus(
    number=1,
    generation=1,
    ray_job="digits-1",
    job_id="digits-0123abcd-1",
    ray_cluster="trainshed",
    start_time=NOW,
)
ENDED = OPEN.model_copy(update={"end_time": NOW, "outcome": "Infrastructure"})
FAILED = make_job(job_status="FAILED", deployment_status="Failed")
RUNNING = make_job(job_status="RUNNING", deployment_status="Running")
SILENT = Heard(3, silent_seconds=SILENT_SECONDS)


def view_of(*attempts: AttemptStatus) -> RunView:
    """Return a run with these attempts."""
    return make_view(TrainingRunStatus(attempts=attempts, attempt=len(attempts)))


@dataclass(frozen=True)
class Row:
    attempts: tuple[AttemptStatus, ...]
    seen: Observed
    want: str | None


ROWS = {
    "nothing began": Row((), make_seen(), None),
    "it trains and says so": Row((OPEN,), make_seen(ray_job=RUNNING), None),
    "it ended and nobody knows why": Row((OPEN,), make_seen(ray_job=FAILED), "last word"),
    "it ended and said why": Row(
        (OPEN,), make_seen(ray_job=FAILED, snapshot=make_snapshot(state="Ended")), None
    ),
    "it never began and is given up": Row(
        (OPEN,), make_seen(ray_job=make_job(deployment_status="Failed")), None
    ),
    "it is silent": Row((OPEN,), make_seen(ray_job=RUNNING, heard=SILENT), "is over"),
    "it is silent because nothing was started": Row(
        (OPEN.model_copy(update={"start_time": None}),),
        make_seen(ray_job=make_job(), heard=SILENT),
        None,
    ),
    "its head was lost": Row((ENDED,), make_seen(), "stop"),
    "it said how it ended": Row((ENDED.model_copy(update={"exit_code": 1}),), make_seen(), None),
    "its cluster is gone": Row((ENDED,), make_seen(cluster=None), None),
}


@pytest.mark.parametrize("case", ROWS)
def test_question(case: str) -> None:
    row = ROWS[case]

    question = question_of(view_of(*row.attempts), row.seen, SETTINGS)

    assert (question and question.kind) == row.want
    assert question is None or question == Question(
        question.kind, Key("run", "team", "digits"), UID, 1, "trainshed", "digits-0123abcd-1"
    )


def test_where_nobody_is_told_silence_means_nothing() -> None:
    seen = make_seen(ray_job=RUNNING, heard=SILENT)

    assert question_of(view_of(OPEN), seen, replace(SETTINGS, progress_url="")) is None
