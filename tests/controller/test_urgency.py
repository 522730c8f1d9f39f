"""What of a status is written at once, and what in its time."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.controller.builders_view import (
    SETTINGS,
    later,
    make_head,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    with_status,
)
from trainshed_api.progress import ResumePoint
from trainshed_api.records import CheckpointRecord
from trainshed_api.snapshot import Snapshot
from trainshed_controller.decide import decide
from trainshed_controller.model import Observed, RunView

JOB = make_job(job_status="RUNNING", deployment_status="Running")
TOLD = make_snapshot()


def training() -> RunView:
    """Return a run that trains in its first attempt, and of which a step was heard."""
    view = make_view()
    for seen in (make_seen(), make_seen(ray_job=JOB), make_seen(ray_job=JOB, snapshot=TOLD)):
        view = with_status(view, decide(view, seen, SETTINGS, later(0)).status)
    return view


def told(**fields: object) -> Observed:
    return make_seen(ray_job=JOB, snapshot=TOLD.model_copy(update=fields))


BY_DRIVERS: dict[str, Callable[[str], Snapshot]] = {
    "where it went on from": lambda text: make_snapshot(resumed_from=ResumePoint(checkpoint=text)),
    "its checkpoint": lambda text: make_snapshot(checkpoint=CheckpointRecord(path=text)),
    "its state": lambda text: make_snapshot(state="Stopping" if text == "a" else "Training"),
    "its end": lambda text: make_snapshot(
        state="Ended" if text == "a" else "Training", result=text, report=text, message=text
    ),
    "its metrics": lambda text: make_snapshot(metrics={text: 1.0}),
    "how often it lost workers": lambda text: make_snapshot(workers_lost=ord(text)),
    "its clock": lambda text: make_snapshot(at=float(ord(text))),
}


@pytest.mark.parametrize("case", BY_DRIVERS)
def test_nothing_that_a_driver_may_alternate_is_urgent(case: str) -> None:
    view, changed = training(), False
    for text in "abababab":
        seen = make_seen(ray_job=JOB, snapshot=BY_DRIVERS[case](text))
        plan = decide(view, seen, SETTINGS, later(10))
        assert not plan.urgent
        changed = changed or plan.status != view.status
        view = with_status(view, plan.status)

    assert changed or case == "its state"


TURNS = {
    "the spec": (replace(make_view(), generation=2), told()),
    "an order to stop": (make_view(suspend=True), told()),
    "its end": (make_view(), make_seen(ray_job=make_job(job_status="SUCCEEDED"))),
    "its head": (make_view(), make_seen(ray_job=JOB, head=make_head("c2"))),
}


@pytest.mark.parametrize("case", TURNS)
def test_what_turns_is_urgent(case: str) -> None:
    changed, seen = TURNS[case]
    view = replace(training(), run=changed.run, generation=changed.generation)

    assert decide(view, seen, SETTINGS, later(10)).urgent


def test_the_head_that_has_the_job_is_written_down_at_once() -> None:
    view = make_view()
    for seen in (make_seen(head=None), make_seen(head=None, ray_job=JOB, snapshot=TOLD)):
        view = with_status(view, decide(view, seen, SETTINGS, later(0)).status)

    plan = decide(view, told(), SETTINGS, later(1))

    assert plan.status.attempts[-1].head_identity
    assert plan.urgent
