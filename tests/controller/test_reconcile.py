"""What is done about a run, from its creation to its end and beyond."""

from dataclasses import replace

import pytest

from tests.controller.builders_view import (
    NOW,
    later,
    look,
    make_head,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    with_status,
)
from trainshed_api.pod_trouble import PodTrouble
from trainshed_api.records import CheckpointRecord
from trainshed_api.snapshot import Snapshot
from trainshed_api.status import TrainingRunStatus
from trainshed_controller import status as states
from trainshed_controller.model import Heard, Place, RunView
from trainshed_controller.project import Said, with_conditions
from trainshed_controller.release import must_stop


def begun(**spec: object) -> RunView:
    """Return a run whose first attempt is written down."""
    return look(make_view(**spec), make_seen())[0]  # type: ignore[arg-type]


def running(**spec: object) -> RunView:
    """Return a run that trains in its first attempt."""
    job = make_job(deployment_status="Running", job_status="RUNNING")
    return look(begun(**spec), make_seen(ray_job=job, snapshot=make_snapshot()), 5)[0]


def reason(status: TrainingRunStatus, kind: str) -> str:
    return next(c.reason for c in status.conditions if c.type == kind)


def test_a_status_says_which_generation_of_the_spec_it_is_about() -> None:
    view, _ = look(make_view(generation=7), make_seen())

    assert view.status.observed_generation == 7


def test_an_attempt_without_rayjob_that_never_started_is_created_again() -> None:
    _, plan = look(begun(), make_seen(), 3)

    assert plan.begin == 1


def test_what_can_never_fit_says_so_and_waits() -> None:
    place = Place(admitted=False, exceeds=True)
    view, _ = look(make_view(), make_seen(place=place))

    assert reason(view.status, "Admitted") == "ExceedsCluster"
    assert view.status.phase == "Queued"


def test_a_missing_cluster_is_named() -> None:
    view, plan = look(make_view(), make_seen(cluster=None))

    assert view.status.queue
    assert view.status.queue.reason == "no RayCluster trainshed in this namespace"
    assert plan.again_after


def test_a_rayjob_of_somebody_else_under_the_name_is_left_alone() -> None:
    view, plan = look(make_view(), make_seen(next_taken=make_job(owner="other")))

    assert plan.begin is None
    assert plan.delete_jobs == ()
    assert reason(view.status, "Progressing") == "RayJobNameTaken"


@pytest.mark.parametrize("heard", [None, make_snapshot(state="Ended", outcome="Succeeded")])
def test_a_run_that_trained_does_not_start_again(heard: Snapshot | None) -> None:
    job = make_job(deployment_status="Running", job_status="RUNNING")
    view, plan = look(running(), make_seen(ray_job=job, snapshot=heard), 10)

    assert view.status.phase == "Running"
    assert plan.notes == ()


def test_a_snapshot_alone_makes_no_success() -> None:
    word = make_snapshot(state="Ended", outcome="Succeeded", exit_code=0)
    job = make_job(job_status="FAILED", message="failed with exit code 1")
    view, _ = look(running(), make_seen(ray_job=job, snapshot=word), 60)

    assert view.status.holds("Failed")


def test_the_programs_failure_is_final_and_tells_the_traceback() -> None:
    word = make_snapshot(
        state="Ended", outcome="Failed", cause="Application", exit_code=1,
        message="ValueError: empty table (worker 0, step 10)", traceback="Traceback ...",
    )  # fmt: skip
    job = make_job(job_status="FAILED", message="exit code 1")
    view, plan = look(running(), make_seen(ray_job=job, snapshot=word), 60)

    condition = view.status.condition("Failed")
    assert condition
    assert condition.reason == "ApplicationFailed"
    assert "ValueError: empty table" in condition.message
    assert view.status.failures.application == 1
    assert plan.delete_jobs == ()
    assert plan.notes[0].type == "Warning"


def test_a_failure_within_the_budget_is_followed_by_an_attempt_that_resumes() -> None:
    view = running(failurePolicy={"maxApplicationFailures": 1})
    job = make_job(job_status="FAILED", message="failed with exit code 1")
    view, plan = look(view, make_seen(ray_job=job), 60)
    assert view.status.phase == "Restarting"
    assert plan.delete_jobs == (job,)

    view, plan = look(view, make_seen(), 61)

    assert plan.begin == 2
    assert view.status.attempts[-1].ray_job == "digits-2"


def test_a_job_that_nobody_can_ask_after_is_waited_for() -> None:
    view = running(stallDeadlineSeconds=10)
    job = make_job(job_status="RUNNING", deployment_status="Running")
    still = Heard(num_snapshots=2, still_seconds=10.0)
    view, _ = look(view, make_seen(ray_job=job, snapshot=make_snapshot(), heard=still), 40)
    assert view.status.attempts[0].reason == "Stalled"

    _, waiting = look(view, make_seen(), 45)
    _, alive = look(view, make_seen(over=False), 45)
    _, over = look(view, make_seen(over=True), 45)

    assert (waiting.begin, alive.begin, over.begin) == (None, None, 2)


def test_a_job_that_started_after_its_attempt_was_given_up_is_waited_for() -> None:
    view = begun(provisioningDeadlineSeconds=60)
    view, _ = look(view, make_seen(ray_job=make_job(deployment_status="Initializing")), 70)
    assert view.status.attempts[0].reason == "ProvisioningDeadlineExceeded"
    late = make_job(job_status="RUNNING", deployment_status="Running")
    view, plan = look(view, make_seen(ray_job=late), 140)
    assert plan.delete_jobs == (late,)

    _, alive = look(view, make_seen(over=False), 145)
    _, over = look(view, make_seen(over=True), 145)

    assert (alive.begin, over.begin) == (None, 2)


def test_a_job_that_came_and_went_unseen_is_asked_after() -> None:
    view = begun(provisioningDeadlineSeconds=60)
    view, _ = look(view, make_seen(), 2000)
    assert view.status.attempts[0].reason == "ProvisioningDeadlineExceeded"

    assert must_stop(view.status, make_seen())
    _, alive = look(view, make_seen(over=False), 2005)
    _, never_there = look(view, make_seen(over=True), 2005)

    assert (alive.begin, never_there.begin) == (None, 2)


def test_suspend_asks_the_driver_then_waits_its_grace_then_deletes() -> None:
    job = make_job(job_status="RUNNING", deployment_status="Running")
    live = running(gracePeriodSeconds=30)
    suspended = with_status(make_view(suspend=True, gracePeriodSeconds=30), live.status)

    view, asked = look(suspended, make_seen(ray_job=job, snapshot=make_snapshot()), 20)
    assert view.status.phase == "Stopping"
    assert view.status.attempts[0].stop_reason == "Suspended"
    assert asked.delete_jobs == ()
    _, forced = look(view, make_seen(ray_job=job, snapshot=make_snapshot()), 80)
    assert forced.delete_jobs == (job,)

    word = make_snapshot(
        state="Ended", outcome="Stopped", exit_code=143, checkpoint=CheckpointRecord(path="c")
    )
    ended = make_job(job_status="FAILED", message="failed with exit code 143")
    view, _ = look(view, make_seen(ray_job=ended, snapshot=word), 30)
    assert view.status.phase == "Suspended"
    assert view.status.holds("Suspended")
    assert view.status.failures.application == 0
    assert view.status.checkpoint


def test_the_active_deadline_stops_and_fails_the_run() -> None:
    job = make_job(job_status="RUNNING", deployment_status="Running")
    view, _ = look(running(activeDeadlineSeconds=50), make_seen(ray_job=job), 51)
    assert view.status.attempts[0].stop_reason == "DeadlineExceeded"

    view, _ = look(view, make_seen(ray_job=make_job(job_status="STOPPED")), 55)

    assert reason(view.status, "Failed") == "DeadlineExceeded"


def test_a_job_stopped_by_somebody_else_is_not_started_again() -> None:
    view, plan = look(running(), make_seen(ray_job=make_job(job_status="STOPPED")), 30)

    assert reason(view.status, "Failed") == "StoppedOutside"
    assert plan.begin is None


def test_what_does_not_start_in_time_is_tried_again_and_says_why() -> None:
    trouble = make_head(trouble=PodTrouble("ImagePullFailed", "image pull: not found"))
    job = make_job(deployment_status="Initializing")
    view = begun(provisioningDeadlineSeconds=60)
    view, _ = look(view, make_seen(ray_job=job, pods=(trouble,)), 61)

    assert view.status.attempts[0].reason == "ProvisioningDeadlineExceeded"
    assert "image pull: not found" in view.status.attempts[0].message


def test_a_run_is_deleted_when_its_time_is_over() -> None:
    done, _ = look(
        running(ttlSecondsAfterFinished=10), make_seen(ray_job=make_job(job_status="SUCCEEDED")), 60
    )

    _, waiting = look(done, make_seen(), 65)
    _, over = look(done, make_seen(), 70)

    assert (waiting.delete_run, waiting.again_after) == (False, 5)
    assert over.delete_run


def test_another_training_under_the_name_is_refused() -> None:
    view = with_status(make_view(seed=3), begun().status)
    job = make_job(job_status="RUNNING", deployment_status="Running")

    view, _ = look(view, make_seen(ray_job=job), 10)

    assert reason(view.status, "Accepted") == "TrainingChanged"
    assert not view.status.holds("Failed")


def test_a_class_that_is_not_there_is_named_beside_those_that_are() -> None:
    view, _ = look(make_view(cluster={"dedicated": {"class": "big"}}), make_seen())

    assert view.status.phase == "Queued"
    assert reason(view.status, "Progressing") == "NoSuchClass"
    assert 'got "big"' in (view.status.conditions[0].message)


def test_a_queued_run_that_gets_a_label_of_kueue_waits_and_says_why() -> None:
    waiting = Place(admitted=False)
    view, _ = look(make_view(), make_seen(place=waiting))
    labelled = make_view(labels={"kueue.x-k8s.io/queue-name": "q"})

    view, _ = look(with_status(labelled, view.status), make_seen(place=waiting), 5)

    assert view.status.phase == "Queued"
    assert reason(view.status, "Progressing") == "KueueNeedsOwnCluster"


def test_a_suspended_run_that_a_release_before_cannot_read_stays_suspended() -> None:
    view, _ = look(make_view(suspend=True), make_seen())

    view, _ = look(replace(view, run=None, problem="spec.later: unknown field"), make_seen(), 5)

    assert view.status.phase == "Suspended"
    assert reason(view.status, "Accepted") == "Invalid"


def test_a_run_whose_deadline_passed_while_it_paused_begins_nothing() -> None:
    view = running(activeDeadlineSeconds=600, failurePolicy={"maxApplicationFailures": 5})
    view, _ = look(
        view, make_seen(ray_job=make_job(job_status="FAILED", message="exit code 1")), 500
    )

    view, plan = look(view, make_seen(), 700)

    assert plan.begin is None
    assert reason(view.status, "Failed") == "DeadlineExceeded"


def test_a_wait_in_kueue_is_no_active_time() -> None:
    held = make_job(suspended=True, deployment_status="Suspended")
    view = make_view(cluster={"dedicated": {}}, activeDeadlineSeconds=3600)
    view, _ = look(view, make_seen(cluster=None, head=None))
    for at in (1, 3603):
        view, _ = look(view, make_seen(ray_job=held, head=None), at)

    assert view.status.phase == "Queued"
    assert reason(view.status, "Progressing") == "QueuedByKueue"
    assert states.open_attempt(view.status)


def test_an_internal_error_is_not_taken_back_while_what_failed_is_still_to_be_done() -> None:
    view = begun()
    status = with_conditions(view.status, {"InternalError": Said(True, "x")}, NOW, 1)

    view, plan = look(with_status(view, status), make_seen(), 3)

    assert plan.begin == 1
    assert view.status.holds("InternalError")


def test_a_kueue_label_needs_a_cluster_of_its_own() -> None:
    view, _ = look(make_view(labels={"kueue.x-k8s.io/queue-name": "q"}), make_seen())

    assert reason(view.status, "Accepted") == "KueueNeedsOwnCluster"


def test_being_preempted_is_free_and_tried_again_without_a_pause() -> None:
    view = running(failurePolicy={"maxInfrastructureFailures": 0})
    job = make_job(job_status="RUNNING", deployment_status="Running", suspended=True)

    view, _ = look(view, make_seen(ray_job=job), 20)

    assert view.status.attempts[0].outcome == "Preempted"
    assert view.status.failures.preempted == 1
    assert view.status.phase == "Restarting"


def test_a_spent_budget_ends_the_run() -> None:
    view = running(failurePolicy={"maxInfrastructureFailures": 0})
    job = make_job(job_status="RUNNING", deployment_status="Running")

    view, plan = look(view, make_seen(ray_job=job, head=None), 20)

    condition = view.status.condition("Failed")
    assert condition
    assert condition.message.startswith("maxInfrastructureFailures (0) is used up")
    assert plan.delete_jobs == (job,), "what may still run is stopped"


def test_a_driver_that_kuberay_gave_up_does_not_outlive_its_run() -> None:
    view = running(failurePolicy={"maxInfrastructureFailures": 0})
    given_up = make_job(
        job_status="RUNNING", deployment_status="Failed", reason="JobStatusCheckTimeoutExceeded"
    )

    view, plan = look(view, make_seen(ray_job=given_up), 400)
    _, again = look(view, make_seen(ray_job=given_up), 500)

    assert view.status.phase == "Failed"
    assert plan.delete_jobs == again.delete_jobs == (given_up,)


def test_pauses_grow_with_failures() -> None:
    view = running(failurePolicy={"maxApplicationFailures": 5})
    failure = make_job(job_status="FAILED", message="failed with exit code 1")
    view, _ = look(view, make_seen(ray_job=failure), 10)
    view, _ = look(view, make_seen(), 10)
    second = make_job(2, job_status="FAILED", message="failed with exit code 1")
    view, _ = look(view, make_seen(ray_job=second), 20)

    _, early = look(view, make_seen(), 25)
    _, late = look(view, make_seen(), 31)

    assert (early.begin, late.begin) == (None, 3)


def pauses_between_head_losses(*trained_seconds: float) -> list[float]:
    """Return the pauses after attempts that trained for so long and then lost their head."""
    view, now, pauses = begun(), 0.0, []
    for number, seconds in enumerate(trained_seconds, 1):
        job = make_job(number, deployment_status="Running", job_status="RUNNING")
        head = make_head(f"c{number}")
        told = make_snapshot(number, at=now + seconds)
        told = told.model_copy(
            update={"seconds": told.seconds.model_copy(update={"training": seconds})}
        )
        now += seconds
        view, _ = look(view, make_seen(ray_job=job, head=head, snapshot=told), now)
        lost = make_seen(ray_job=job, head=make_head(f"c{number + 1}"))
        view, _ = look(view, lost, now)
        assert view.status.attempts[-1].reason == "HeadLost"
        ended, begins = now, None
        while begins is None:
            view, plan = look(view, make_seen(head=make_head(f"c{number + 1}")), now)
            begins = plan.begin
            now += plan.again_after or 0.0
        pauses.append(now - ended)
    return pauses


def test_heads_that_are_lost_at_once_are_followed_by_longer_and_longer_pauses() -> None:
    assert pauses_between_head_losses(60, 60, 60, 60) == [0, 10, 20, 40]


def test_heads_that_are_lost_weeks_apart_cost_no_pause() -> None:
    week = 7 * 86400.0

    assert pauses_between_head_losses(week, week, week, week) == [0, 0, 0, 0]


def test_an_attempt_that_trained_for_ten_minutes_ends_the_longer_pauses() -> None:
    assert pauses_between_head_losses(60, 60, 60, 599, 600, 60, 60) == [0, 10, 20, 40, 0, 10, 20]


def test_the_status_adds_up_to_the_wall_time() -> None:
    waiting = Place(admitted=False)
    view, _ = look(make_view(), make_seen(place=waiting))
    view, _ = look(view, make_seen(), 100)
    job = make_job(job_status="RUNNING", deployment_status="Running")
    view, _ = look(view, make_seen(ray_job=job), 110)
    word = make_snapshot(state="Ended", outcome="Succeeded", at=150)
    word = word.model_copy(
        update={"seconds": word.seconds.model_copy(update={"training": 30.0, "starting": 8.0})}
    )
    view, _ = look(
        view, make_seen(ray_job=make_job(job_status="SUCCEEDED"), snapshot=word), 150
    )  # fmt: skip

    time = view.status.time
    assert (time.queued, time.provisioning, time.training) == (100, 10, 30)
    assert time.queued + time.provisioning + time.total() == pytest.approx(150)
    assert view.status.completion_time == later(150)
    assert view.created == NOW
