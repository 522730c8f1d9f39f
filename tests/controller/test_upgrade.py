"""A controller of another release takes over runs that are under way, up and down."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import make_run
from tests.builders_later import make_later_spec
from tests.controller.builders_view import (
    later,
    look,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    with_status,
)
from trainshed_api.loading import Document
from trainshed_api.start_times import StartTimes
from trainshed_api.status import AttemptStatus, TrainingRunStatus
from trainshed_controller.model import RunView
from trainshed_controller.project import Said, with_conditions
from trainshed_controller.status import told

# What the first release wrote down of this spec.
NAME = "all of the feed"
RECORDED = json.loads(
    (Path(__file__).parents[1] / "api" / "first_hashes.json").read_text(encoding="utf-8")
)[NAME]
SPEC: Document = RECORDED["spec"]
JOB = make_job(deployment_status="Running", job_status="RUNNING")
OPEN: Document = {"number": 1, "generation": 1, "rayJob": "digits-1", "jobId": "job-1"}
OPEN |= {"rayCluster": "trainshed", "specHash": RECORDED["hash"], "startTime": str(later(0))}
ENDED = OPEN | {"endTime": str(later(60)), "exitCode": 0}
# By what the run did when the controllers were changed; as the first release wrote it.
UNDER_WAY: dict[str, Document] = {
    "it trains": {"phase": "Running", "attempt": 1, "attempts": [OPEN]},
    "it waits for room": {
        "phase": "Queued",
        "attempt": 1,
        "attempts": [ENDED | {"outcome": "Preempted"}],
    },
    "it is suspended": {
        "phase": "Suspended",
        "attempt": 1,
        "attempts": [ENDED | {"outcome": "Stopped"}],
    },
    "it never began": {"phase": "Queued"},
}


def under_way(case: str, **changed: object) -> RunView:
    """Return a run that the first release left so, as a later one reads it."""
    run = make_run(**SPEC).model_copy(update={"spec": make_later_spec(**(SPEC | changed))})
    status = TrainingRunStatus.model_validate(UNDER_WAY[case])
    return replace(with_status(make_view(), status), run=run)


@pytest.mark.parametrize("case", UNDER_WAY)
def test_a_run_goes_on_under_a_controller_that_knows_more_fields(case: str) -> None:
    view = under_way(case)
    trains = case == "it trains"
    seen = make_seen(ray_job=JOB, snapshot=make_snapshot(at=99)) if trains else make_seen()

    view, plan = look(view, seen, 100)

    assert view.status.holds("Accepted")
    assert not view.status.holds("Failed")
    assert view.status.phase == ("Running" if trains else "Starting")
    assert plan.begin == {"it trains": None, "it never began": 1}.get(case, 2)


@pytest.mark.parametrize("case", UNDER_WAY)
def test_an_earlier_controller_finds_the_hash_that_it_would_have_written(case: str) -> None:
    view, _ = look(under_way(case), make_seen(ray_job=JOB), 100)

    assert {attempt.spec_hash for attempt in view.status.attempts} == {RECORDED["hash"]}


def test_a_suspended_run_goes_on_with_another_prefetch() -> None:
    view, _ = look(replace(make_view(), run=make_run(**SPEC)), make_seen(), 0)
    (attempt,) = view.status.attempts
    ended = attempt.model_copy(
        update={"start_time": later(0), "end_time": later(9), "exit_code": 0, "outcome": "Stopped"}
    )
    status = view.status.model_copy(update={"attempts": (ended,), "phase": "Suspended"})
    data = json.loads(json.dumps(SPEC["data"]))
    data["datasets"]["train"]["feed"]["prefetchBatches"] = 3

    view, plan = look(with_status(make_view(data=data), status), make_seen(), 20)

    assert view.status.holds("Accepted")
    assert plan.begin == 2
    assert view.status.attempts[-1].spec_hash != RECORDED["hash"]


def test_a_later_field_that_is_set_is_another_training() -> None:
    view, _ = look(under_way("it is suspended", swap="all"), make_seen(), 100)

    assert view.status.condition("Accepted")
    assert not view.status.holds("Accepted")
    assert view.status.holds("Failed")


def test_what_a_later_release_says_of_an_attempt_is_passed_over() -> None:
    assert AttemptStatus.model_validate(OPEN | {"paceHash": "x"}).spec_hash == RECORDED["hash"]


def test_what_a_later_release_says_in_conditions_and_phases_of_a_start_stays() -> None:
    admitted: Document = {"type": "Admitted", "status": "True", "reason": "Admitted", "later": 1}
    admitted |= {"lastTransitionTime": str(later(0))}
    attempt = OPEN | {"start": {"imports": 1.0, "later": 2.0}}
    written: Document = {"phase": "Running", "attempt": 1, "conditions": [admitted]}
    status = TrainingRunStatus.model_validate(written | {"attempts": [attempt]})
    begun = make_snapshot(start=StartTimes(imports=1.0, workers=3.0))

    known = with_conditions(status, {"Admitted": Said(True, "Other")}, later(9), 1)
    known = told(known, known.attempts[-1], begun, ())

    assert known.model_dump(by_alias=True)["conditions"][0]["later"] == 1
    assert known.model_dump(by_alias=True, exclude_none=True)["attempts"][0]["start"] == {
        "imports": 1.0,
        "workers": 3.0,
        "later": 2.0,
    }
