"""A run whose workers are lost says so, names the Pods, and trains again with its next step."""

from dataclasses import replace

from tests.controller.builders_view import (
    look,
    make_head,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    make_worker,
)
from trainshed_api.snapshot import Snapshot
from trainshed_controller.model import Heard, Observed, PodView, RunView

JOB = make_job(job_status="RUNNING", deployment_status="Running")
LOST = make_worker(index=7, node="node3")
TOLD = make_snapshot(hosts=(LOST.name, make_worker(index=8).name))


def seen(told: Snapshot = TOLD, *gone: PodView) -> Observed:
    return make_seen(ray_job=JOB, snapshot=told, gone=gone, head=make_head())


def running() -> RunView:
    view = make_view()
    for what in (make_seen(), make_seen(ray_job=JOB), seen()):
        view, _ = look(view, what, 0)
    return view


def why(view: RunView) -> tuple[str | None, str, str]:
    said = view.status.condition("Progressing")
    assert said
    return view.status.phase, said.reason, said.message


def test_a_run_with_a_lost_worker_restarts_and_names_pod_and_node() -> None:
    view, plan = look(running(), seen(TOLD, LOST), 60)

    assert plan.urgent
    phase, reason, message = why(view)
    assert (phase, reason) == ("Restarting", "WorkersLost")
    assert f"Pod {LOST.name} on node node3" in message
    assert [(note.type, note.reason) for note in plan.notes] == [("Warning", "Restarting")]
    assert view.status.attempt == 1


def test_pods_of_others_and_heads_are_no_lost_workers() -> None:
    head = make_head(name=TOLD.hosts[0], uid="another")

    view, plan = look(running(), seen(TOLD, make_worker(index=1), head), 60)

    assert view.status.phase == "Running"
    assert plan.notes == ()


def test_workers_that_start_again_are_told_of_until_the_next_step() -> None:
    restarting = TOLD.model_copy(
        update={"hosts": ("new",), "restarting": True, "warnings": ("lost worker 1: killed",)}
    )
    view, _ = look(running(), seen(restarting, LOST), 60)
    assert why(view) == ("Restarting", "WorkersRestarting", "lost worker 1: killed")

    trains = restarting.model_copy(update={"restarting": False})
    view, plan = look(view, seen(trains, LOST), 62)

    assert plan.urgent
    assert view.status.phase == "Running"


def test_time_with_lost_workers_is_the_driver_s_to_tell() -> None:
    view, _ = look(running(), seen(TOLD, LOST), 60)
    view, _ = look(view, seen(), 90)

    assert view.status.time.lost == 0


def test_an_attempt_that_ends_while_its_workers_restart_is_told_of_and_its_wait_is_lost() -> None:
    view, _ = look(running(), seen(TOLD, LOST), 60)

    ended, plan = look(view, replace(seen(TOLD, LOST), head=make_head("c2")), 100)
    lost = ended.status.time.lost
    again, _ = look(ended, make_seen(over=True), 110)

    assert ended.status.phase == "Restarting"
    assert [note.reason for note in plan.notes] == ["Restarting"]
    assert again.status.attempt == 2
    assert again.status.time.lost - lost == 10


def test_a_driver_that_alternates_is_heard_no_more_often_than_one_that_trains() -> None:
    view, notes, num_urgent = running(), 0, 0
    for second in range(60, 120):
        told = TOLD if second % 2 else TOLD.model_copy(update={"hosts": ()})
        after, plan = look(view, seen(told, LOST), second)
        notes += len(plan.notes)
        num_urgent += plan.urgent
        if plan.urgent or second % 10 == 0:  # all else is written in its time
            view = after

    assert notes <= 6
    assert num_urgent <= 12


def test_pods_are_told_of_once_though_the_driver_spoke_first() -> None:
    restarting = TOLD.model_copy(update={"restarting": True})
    view, first = look(running(), seen(restarting), 60)
    view, second = look(view, seen(restarting, LOST), 61)
    replaced = restarting.model_copy(update={"hosts": ("new",)})
    view, third = look(view, seen(replaced, LOST), 62)

    assert [len(plan.notes) for plan in (first, second, third)] == [0, 1, 0]
    assert why(view)[1] == "WorkersLost", "until they train it is said whose loss it was"


def test_a_driver_that_falls_silent_over_a_loss_is_said_to_be_silent() -> None:
    heard = Heard(3, silent_seconds=600.0)

    view, _ = look(running(), replace(seen(TOLD, LOST), heard=heard), 700)

    assert "no heartbeat from the driver for 10 minutes" in why(view)[2]


def test_a_lost_head_is_named_after_its_pod_is_gone() -> None:
    view = running()
    (attempt,) = view.status.attempts
    old = make_head(name="trainshed-head-old", uid=attempt.head_identity.partition("/")[0])

    view, _ = look(view, replace(seen(TOLD, old), head=None), 60)

    assert "Pod trainshed-head-old on node node1" in view.status.attempts[0].message


def test_why_a_run_waits_for_data_is_told_while_it_trains() -> None:
    waits = TOLD.model_copy(update={"waits_for": "waiting for data takes 42 % of the time"})

    view, _ = look(running(), seen(waits), 60)
    assert why(view) == ("Running", "Training", "waiting for data takes 42 % of the time")

    view, _ = look(view, seen(waits.model_copy(update={"workers_lost": 1})), 62)
    assert why(view)[2].startswith("workers were lost and started again 1 times; waiting for data")
