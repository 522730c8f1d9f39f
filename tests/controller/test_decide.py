"""Which state a run is in: the first that holds, where no history has it."""

from dataclasses import dataclass, replace

import pytest

from tests.controller.builders_view import (
    NOW,
    SETTINGS,
    later,
    look,
    make_cluster,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
)
from trainshed_api.status import FailureCounts
from trainshed_controller.decide import decide, derive
from trainshed_controller.facts import facts_of
from trainshed_controller.model import Observed, Refusal, RunView, Settings
from trainshed_controller.status import open_attempt

RUNNING = make_job(deployment_status="Running", job_status="RUNNING")
OVER = make_job(deployment_status="Failed", job_status="FAILED", message="failed with exit code 1")
REFUSAL = Refusal(1, "no quota", later(5))
DEDICATED = make_view(cluster={"dedicated": {}})
SECRETIVE = make_view(cluster={"dedicated": {}}, envFrom=[{"secretRef": {"name": "admin-token"}}])


def begun(view: RunView) -> RunView:
    """Return the run after its first attempt was written down."""
    return look(view, make_seen())[0]


def failed(view: RunView) -> RunView:
    """Return the run after its first attempt failed."""
    return look(look(begun(view), make_seen(ray_job=RUNNING), 1)[0], make_seen(ray_job=OVER), 2)[0]


@dataclass
class Row:
    """A run, what is seen of it, and its state at second 10."""

    view: RunView
    seen: Observed
    want: str
    settings: Settings = SETTINGS


NEW = make_view()
ATTEMPT = begun(NEW)
RETRIED = failed(make_view(failurePolicy={"maxApplicationFailures": 3}))
ROWS = {
    "there is no cluster": Row(NEW, make_seen(cluster=None), "Waiting"),
    "somebody else's cluster": Row(NEW, make_seen(cluster=make_cluster(owner="other")), "Waiting"),
    "the next name is taken": Row(NEW, make_seen(next_taken=make_job(owner="x")), "NameTaken"),
    "suspended from the start": Row(make_view(suspend=True), make_seen(), "Suspended"),
    "no such class": Row(
        make_view(cluster={"dedicated": {"class": "other"}}), make_seen(), "Blocked"
    ),
    "written, not created": Row(ATTEMPT, make_seen(), "Creating"),
    "its class is gone before its RayJob is there": Row(
        begun(DEDICATED), make_seen(), "Ended", replace(SETTINGS, classes={})
    ),
    "edited to what its class does not permit after a refusal": Row(
        replace(begun(DEDICATED), run=SECRETIVE.run), make_seen(refusal=REFUSAL), "Ended"
    ),
    "edited before its RayJob is there": Row(
        replace(ATTEMPT, run=make_view(workers={"count": 9}).run, generation=2),
        make_seen(refusal=REFUSAL),
        "Ended",
    ),
    "no more attempts": Row(failed(NEW), make_seen(ray_job=OVER), "Finished"),
    "Kueue holds it": Row(
        begun(DEDICATED), make_seen(ray_job=make_job(suspended=True)), "QueuedByKueue"
    ),
    "a failed driver may have a last word": Row(
        ATTEMPT, make_seen(ray_job=OVER, asking=True), "AwaitsLastWord"
    ),
    "the stop comes before the start": Row(
        replace(ATTEMPT, run=make_view(suspend=True).run), make_seen(), "Stopping"
    ),
    "the RayJob of the last attempt is there": Row(RETRIED, make_seen(ray_job=OVER), "Unreleased"),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_first_state_that_holds_is_that_of_the_run(name: str) -> None:
    row = ROWS[name]

    state = derive(facts_of(row.view, row.seen, row.settings, later(10)))

    assert state.name == row.want


def test_a_run_that_is_blocked_between_attempts_has_waited_since_then() -> None:
    view = begun(DEDICATED)
    view, _ = look(view, make_seen(ray_job=make_job(suspended=True), head=None), 1)
    view, _ = look(view, make_seen(ray_job=RUNNING, snapshot=make_snapshot()), 2)
    view, _ = look(view, make_seen(ray_job=replace(RUNNING, suspended=True)), 3)
    assert open_attempt(view.status) is None

    plan = decide(view, make_seen(), replace(SETTINGS, classes={}), later(60))

    assert plan.status.phase == "Queued"
    assert plan.status.phase_time == later(60) > NOW


def test_an_edit_that_is_not_permitted_blocks_the_run_and_counts_as_no_failure() -> None:
    view = replace(begun(DEDICATED), run=SECRETIVE.run)

    for at in (40, 41, 100):
        view, plan = look(view, make_seen(refusal=REFUSAL), at)
        assert plan.begin is None

    [attempt] = view.status.attempts
    assert (attempt.outcome, attempt.reason) == ("Preempted", "NotPermitted")
    accepted = view.status.condition("Accepted")
    assert accepted
    assert (accepted.status, accepted.reason) == ("False", "NotPermitted")
    assert view.status.failures == FailureCounts(preempted=1)
    assert not view.status.holds("Failed")
