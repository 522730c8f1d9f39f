"""What one run, one driver or one absence may not do to a run that is well, or to the cluster."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.controller.builders_view import (
    NOW,
    SETTINGS,
    later,
    look,
    make_cluster,
    make_head,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    with_status,
)
from trainshed_api.status import AttemptStatus, TrainingRunStatus
from trainshed_controller import status as states
from trainshed_controller.decide import decide
from trainshed_controller.model import Heard, Refusal, RunView
from trainshed_controller.project import Said, with_conditions

RUNNING = make_job(deployment_status="Running", job_status="RUNNING")
SETTINGS_WITH_OTHER = replace(SETTINGS, shared_clusters=frozenset({"other"}))


def running(view: RunView) -> RunView:
    """Return the run in the middle of its first attempt."""
    begun, _ = look(view, make_seen())
    return look(begun, make_seen(ray_job=RUNNING, snapshot=make_snapshot()), 5)[0]


# ------------------------------------------------------------------ silence


def test_a_controller_that_was_away_longer_than_the_stall_deadline_touches_no_run() -> None:
    view = running(make_view(stallDeadlineSeconds=1800))

    after, plan = look(view, make_seen(ray_job=RUNNING, snapshot=None), 1_900 + 5)

    assert after.status.phase == "Running"
    assert plan.delete_jobs == ()


def test_the_first_word_after_an_absence_is_no_stall_although_its_step_is_old() -> None:
    view = running(make_view(stallDeadlineSeconds=120))
    same_step = make_snapshot(at=0.0)

    heard = Heard(num_snapshots=1)
    after, _ = look(view, make_seen(ray_job=RUNNING, snapshot=same_step, heard=heard), 900)

    assert after.status.phase == "Running"


@pytest.mark.parametrize(("still_seconds", "phase"), [(119.0, "Running"), (120.0, "Restarting")])
def test_the_same_step_heard_for_the_whole_deadline_is_a_stall(
    still_seconds: float, phase: str
) -> None:
    view = running(make_view(stallDeadlineSeconds=120))

    heard = Heard(num_snapshots=30, still_seconds=still_seconds)
    after, _ = look(view, make_seen(ray_job=RUNNING, snapshot=make_snapshot(), heard=heard), 300)

    assert after.status.phase == phase


@pytest.mark.parametrize(
    ("deadline", "waited", "phase"),
    [(3600, 3599.0, "Running"), (3600, 3600.0, "Restarting"), (0, 90_000.0, "Running")],
)
def test_a_first_step_that_does_not_end_is_a_stall(
    deadline: int, waited: float, phase: str
) -> None:
    view, _ = look(
        make_view(firstStepDeadlineSeconds=deadline, stallDeadlineSeconds=60), make_seen()
    )
    told = make_snapshot(progress=None, steps_begun=True, waits_for="storage is slow")

    heard = Heard(num_snapshots=30, first_step_seconds=waited)
    after, _ = look(view, make_seen(ray_job=RUNNING, snapshot=told, heard=heard), 300)

    assert after.status.phase == phase
    if phase == "Restarting":
        attempt = after.status.attempts[0]
        assert (attempt.outcome, attempt.reason) == ("Infrastructure", "Stalled")
        begin = "no first step within firstStepDeadlineSeconds (3600): storage is slow. Look at "
        assert attempt.message.startswith(f"{begin}attempts/1/driver.log")


def test_a_run_that_is_told_to_stop_is_not_called_stalled_before_its_first_step() -> None:
    view = running(make_view())
    view = with_status(make_view(suspend=True), view.status)
    told = make_snapshot(progress=None, steps_begun=True)
    view, _ = look(view, make_seen(ray_job=RUNNING, snapshot=told), 300)

    heard = Heard(num_snapshots=30, first_step_seconds=9000.0)
    after, _ = look(view, make_seen(ray_job=RUNNING, snapshot=told, heard=heard), 301)

    assert after.status.phase == "Stopping"


@pytest.mark.parametrize(("over", "said"), [(None, "nothing either"), (False, "that its job runs")])
def test_a_silent_driver_is_said_to_be_silent(over: bool | None, said: str) -> None:
    view = running(make_view(stallDeadlineSeconds=60))

    seen = make_seen(ray_job=RUNNING, over=over, heard=Heard(silent_seconds=600.0))
    after, _ = look(view, seen, 700)

    progressing = after.status.condition("Progressing")
    assert progressing
    assert progressing.message == f"no heartbeat from the driver for 10 minutes; Ray says {said}"
    assert after.status.phase == "Running"


# ------------------------------------------------------------------ refused RayJobs

REFUSAL = Refusal(1, "exceeded quota: team, requested: count/rayjobs.ray.io=1", NOW)


def test_a_refused_rayjob_is_said_once_and_tried_again_slowly() -> None:
    begun, _ = look(make_view(), make_seen())

    told, plan = look(begun, make_seen(refusal=REFUSAL), 1)
    _, again = look(told, make_seen(refusal=REFUSAL), 10)
    _, late = look(told, make_seen(refusal=REFUSAL), 31)

    progressing = told.status.condition("Progressing")
    assert progressing
    assert (progressing.status, progressing.reason) == ("False", "RayJobRefused")
    assert progressing.message == REFUSAL.message
    assert [note.reason for note in plan.notes] == ["RayJobRefused"]
    assert (plan.begin, again.begin, late.begin) == (None, None, 1)
    assert again.notes == ()
    assert again.again_after
    assert again.again_after <= 20.0


def test_a_refused_rayjob_heeds_suspend_and_gives_its_room_back() -> None:
    begun, _ = look(make_view(), make_seen())
    suspended = with_status(make_view(suspend=True), begun.status)

    for at in (5, 6, 7):
        suspended, plan = look(suspended, make_seen(refusal=REFUSAL), at)
        assert plan.begin is None

    assert suspended.status.phase == "Suspended"
    assert states.open_attempt(suspended.status) is None


def test_a_rayjob_that_stays_refused_gives_its_capacity_back_and_costs_no_budget() -> None:
    view, _ = look(make_view(provisioningDeadlineSeconds=30), make_seen())

    for at in (1, 40, 61):
        view, _ = look(view, make_seen(refusal=REFUSAL), at)

    (attempt,) = view.status.attempts
    assert (attempt.outcome, attempt.reason) == ("Preempted", "RayJobRefused")
    assert view.status.failures.infrastructure == 0
    assert view.status.phase == "Restarting"


def test_a_rayjob_with_a_cluster_of_its_own_may_be_refused_for_long() -> None:
    view, _ = look(make_view(cluster={"dedicated": {}}), make_seen())

    for at in (1, 40, 100_000):
        view, _ = look(view, make_seen(refusal=REFUSAL), at)

    assert states.open_attempt(view.status)


def test_a_refused_rayjob_heeds_the_active_deadline() -> None:
    view, _ = look(make_view(activeDeadlineSeconds=60), make_seen())

    for at in (61, 62, 63):
        view, _ = look(view, make_seen(refusal=REFUSAL), at)

    assert view.status.phase == "Failed"
    failed = view.status.condition("Failed")
    assert failed
    assert failed.reason == "DeadlineExceeded"


def test_a_refusal_of_an_attempt_before_is_no_matter_of_this_one() -> None:
    begun, _ = look(make_view(), make_seen())

    _, plan = look(begun, make_seen(refusal=replace(REFUSAL, attempt=7)), 1)

    assert plan.begin == 1


def test_a_clock_that_is_set_back_makes_nobody_wait_for_longer() -> None:
    begun, _ = look(make_view(), make_seen())

    _, plan = look(begun, make_seen(refusal=replace(REFUSAL, time=later(3_600))), 1)

    assert plan.again_after
    assert plan.again_after <= 30.0


def test_a_spec_that_turned_unreadable_before_its_rayjob_was_made_begins_nothing() -> None:
    begun, _ = look(make_view(), make_seen())

    view, plan = look(replace(begun, problem="spec.workers: got 10**30"), make_seen(), 3)

    assert plan.begin is None
    assert view.status.phase == "Failed"
    assert view.status.attempts[0].message == "spec.workers: got 10**30"


# ------------------------------------------------------------------ whose memory ran out


@pytest.mark.parametrize("started", [False, True])
def test_a_head_that_ran_out_of_memory_with_another_s_job_ends_no_attempt(started: bool) -> None:
    view = running(make_view()) if started else look(make_view(), make_seen())[0]
    job = RUNNING if started else make_job(deployment_status="Initializing")
    dead = make_head("c9", uid="head-9", name="old-head", ended="OOMKilled", exit_code=137)

    after, _ = look(view, make_seen(ray_job=job, pods=(dead, make_head()), head=make_head()), 9)

    assert states.open_attempt(after.status)


# ------------------------------------------------------------------ what is left after the end


@pytest.mark.parametrize("kind", ["ray_job", "strays"])
def test_a_rayjob_whose_deletion_failed_at_the_end_is_deleted_in_a_later_look(kind: str) -> None:
    view = running(make_view(stallDeadlineSeconds=10))
    ended = with_conditions(view.status, {"Failed": Said(True, "Stalled")}, later(20), 1)
    ended = ended.model_copy(update={"completion_time": later(20)})
    view = with_status(view, ended)

    jobs = RUNNING if kind == "ray_job" else (RUNNING,)
    _, plan = look(view, make_seen(**{kind: jobs}), 30)

    assert plan.delete_jobs == (RUNNING,)
    assert plan.again_after


def test_what_cannot_go_is_looked_at_rarely_and_many_are_deleted_in_turns() -> None:
    view = running(make_view())
    ended = with_conditions(view.status, {"Failed": Said(True, "Stalled")}, later(20), 1)
    ended = ended.model_copy(update={"completion_time": later(20)})
    view = with_status(view, ended)
    many = tuple(make_job(number) for number in range(2, 100))

    _, waits = look(view, make_seen(ray_job=replace(RUNNING, deleting=True)), 30)
    _, deletes = look(view, make_seen(strays=many), 30)

    assert (waits.delete_jobs, waits.again_after) == ((), 60.0)
    assert len(deletes.delete_jobs) == 10


def test_a_rayjob_of_an_earlier_attempt_is_deleted_while_the_next_one_trains() -> None:
    view = running(make_view())
    first = view.status.attempts[0]
    ended = first.model_copy(update={"end_time": later(6), "release_time": later(6)})
    second = first.model_copy(update={"number": 2, "ray_job": make_job(2).name})
    status = view.status.model_copy(update={"attempts": (ended, second), "attempt": 2})
    now = replace(RUNNING, name=second.ray_job, uid="second")

    seen = make_seen(ray_job=now, strays=(RUNNING, make_job(3)), snapshot=make_snapshot(2))
    after, plan = look(with_status(view, status), seen, 10)

    assert after.status.phase == "Running"
    assert plan.delete_jobs == (RUNNING,)  # another replica may have begun the third one


def test_what_ended_by_itself_stays_to_be_looked_at() -> None:
    view = running(make_view())
    succeeded = replace(RUNNING, job_status="SUCCEEDED")
    view, _ = look(view, make_seen(ray_job=succeeded), 30)

    _, plan = look(view, make_seen(ray_job=succeeded), 40)

    assert view.status.phase == "Succeeded"
    assert plan.delete_jobs == ()


# ------------------------------------------------------------------ whose cluster it is


def test_a_cluster_that_is_not_for_sharing_is_waited_for_and_named() -> None:
    view, plan = look(make_view(cluster={"shared": "other"}), make_seen())

    assert view.status.queue
    assert view.status.queue.reason == (
        'spec.cluster.shared: got "other"; expected one of controller.sharedClusters: trainshed'
    )
    assert plan.begin is None


def test_a_cluster_that_is_somebody_s_own_is_not_shared_even_by_name() -> None:
    theirs = make_cluster(name="other", owner="rayjob-1")
    view = make_view(cluster={"shared": "other"})

    plan = decide(view, make_seen(cluster=theirs), SETTINGS_WITH_OTHER, NOW)
    ours = decide(view, make_seen(cluster=make_cluster()), SETTINGS_WITH_OTHER, NOW)

    assert plan.begin is None
    admitted = plan.status.condition("Admitted")
    assert admitted
    assert admitted.reason == "ClusterNotShared"
    assert ours.begin == 1


# ------------------------------------------------------------------ an unreadable spec


def test_a_spec_that_turns_unreadable_does_not_hide_the_end_of_its_attempt() -> None:
    view = replace(running(make_view()), problem="spec.workers: got 10**30")

    after, _ = look(view, make_seen(ray_job=replace(RUNNING, job_status="SUCCEEDED")), 30)

    assert after.status.phase == "Succeeded"


def test_a_spec_that_is_unreadable_and_has_no_attempt_fails_with_its_reason() -> None:
    view = replace(make_view(), problem="spec.workers: got 10**30")

    after, plan = look(view, make_seen())

    failed = after.status.condition("Failed")
    assert failed
    assert (failed.reason, failed.message) == ("Invalid", "spec.workers: got 10**30")
    assert plan.begin is None


# ------------------------------------------------------------------ preemption, internal errors


def preempted(count: int) -> TrainingRunStatus:
    """Return how a run stands that was preempted so often, just now."""
    attempts = tuple(
        AttemptStatus(
            number=number,
            generation=1,
            spec_hash=running(make_view()).status.attempts[0].spec_hash,
            ray_job=f"digits-{number}",
            job_id=f"digits-{number}",
            ray_cluster="trainshed",
            start_time=NOW,
            end_time=NOW,
            outcome="Preempted",
            exit_code=1,
        )
        for number in range(1, count + 1)
    )
    status = running(make_view()).status.model_copy(update={"attempts": attempts})
    counts = status.failures.model_copy(update={"preempted": count})
    return status.model_copy(update={"failures": counts, "attempt": count, "phase": "Restarting"})


@pytest.mark.parametrize(("count", "pause_seconds"), [(1, 0), (2, 10), (4, 40), (9, 300)])
def test_who_has_to_make_room_again_and_again_comes_back_after_longer_pauses(
    count: int, pause_seconds: int
) -> None:
    view = with_status(make_view(), preempted(count))

    if pause_seconds:
        _, early = look(view, make_seen(), pause_seconds - 1)
        assert early.begin is None
    plan = decide(view, make_seen(), SETTINGS, NOW + timedelta(seconds=pause_seconds))

    assert plan.begin == count + 1


def test_an_internal_error_is_over_with_the_next_look_that_succeeds() -> None:
    view = running(make_view())
    failed = Said(True, "ControllerFailed")
    broken = with_conditions(view.status, {"InternalError": failed}, later(6), 1)

    after, _ = look(
        with_status(view, broken), make_seen(ray_job=RUNNING, snapshot=make_snapshot()), 8
    )

    said = after.status.condition("InternalError")
    assert said
    assert (said.status, said.reason) == ("False", "Recovered")
