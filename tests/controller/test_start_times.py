"""The status says which phase of its start an attempt is in, and how long the others took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.controller.builders_view import (
    NOW,
    SETTINGS,
    later,
    look,
    make_head,
    make_job,
    make_seen,
)
from tests.controller.test_reconcile import begun
from trainshed_api.progress import Progress, Started, Starting
from trainshed_api.snapshot import Snapshot
from trainshed_api.start_times import StartTimes
from trainshed_api.status import StartSeconds
from trainshed_controller.decide import decide

if TYPE_CHECKING:
    from trainshed_controller.model import Observed

BEGAN = NOW.timestamp()
STARTING = (
    Snapshot(attempt=1, time=BEGAN + 5, steps_begun=True)
    .after(Starting(time=BEGAN, phase="imports"))
    .after(Starting(time=BEGAN + 2, phase="workers"))
)
STARTED = STARTING.after(Started(time=BEGAN + 20, run="digits", attempt=1, workers=1, folder="f"))
STOPS = STARTED.model_copy(update={"steps_begun": False, "state": "Stopping"})
TRAINS = STARTED.after(Progress(time=BEGAN + 34, step=1))


def seen(snapshot: Snapshot) -> Observed:
    return make_seen(ray_job=make_job(job_status="RUNNING"), head=make_head(), snapshot=snapshot)


@pytest.mark.parametrize(
    ("snapshot", "message", "start"),
    [
        (STARTING, "starting workers since 12:00:02 UTC", StartSeconds(imports=2.0)),
        (
            STARTED,
            "making the first step since 12:00:20 UTC",
            StartSeconds(imports=2.0, workers=18.0),
        ),
        (STOPS, "", StartSeconds(imports=2.0, workers=18.0)),
        (TRAINS, "", StartSeconds(imports=2.0, workers=18.0, first_step=14.0)),
    ],
    ids=["workers start", "the first step", "a loop without steps stops", "training"],
)
def test_a_run_that_starts_says_which_phase_is_under_way(
    snapshot: Snapshot, message: str, start: StartSeconds
) -> None:
    view, _ = look(begun(), seen(snapshot), 60)

    said = view.status.condition("Progressing")
    assert said
    assert said.message == message
    assert view.status.attempts[-1].start == start


def test_a_phase_that_goes_on_changes_no_status() -> None:
    view, _ = look(begun(), seen(STARTING), 60)

    again = STARTING.model_copy(update={"time": BEGAN + 15, "sequence": 9})

    assert decide(view, seen(again), SETTINGS, later(70)).status == view.status


def test_a_phase_of_a_later_release_is_not_told() -> None:
    unknown = STARTING.model_copy(update={"start": StartTimes(phase="compiling", since=BEGAN)})

    view, _ = look(begun(), seen(unknown), 60)

    said = view.status.condition("Progressing")
    assert said
    assert said.message == "RayJob digits-1"
