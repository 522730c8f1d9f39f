"""Curves of programs that report no steps."""

from dataclasses import dataclass

import pytest

from trainshed.report.load import AttemptHistory
from trainshed.report.timeline import place_events
from trainshed_api.progress import AnyEvent, CheckpointSaved, Progress, ResumePoint, Started

POINT = ResumePoint(checkpoint="c1", epoch=1)


def start(resumed: ResumePoint | None = None) -> Started:
    """The start of an attempt."""
    return Started(time=0, run="r", attempt=1, workers=1, folder="f", resumed_from=resumed)


@dataclass(frozen=True)
class Case:
    """The events of two attempts, what they are drawn over, and where each measure then lies."""

    attempts: list[list[AnyEvent]]
    want_label: str
    want_places: list[int]


CASES: dict[str, Case] = {
    "steps are drawn over steps": Case(
        [[Progress(time=0, epoch=1, step=7)], [Progress(time=0, epoch=1, step=9)]], "step", [7, 9]
    ),
    "epochs without steps are drawn over epochs": Case(
        [[Progress(time=0, epoch=1)], [Progress(time=0, epoch=2)]], "epoch", [1, 2]
    ),
    "reports that say neither are counted": Case(
        [[start(), Progress(time=0), Progress(time=0)], [start(), Progress(time=0)]],
        "report",
        [1, 2, 1],
    ),
    "counting goes on from the report of the checkpoint": Case(
        [
            [start(), Progress(time=0), CheckpointSaved(time=0, path="c1"), Progress(time=0)],
            [start(POINT), Progress(time=0)],
        ],
        "report",
        [1, 2, 2],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_places(case: Case) -> None:
    attempts = [
        AttemptHistory(number, tuple(events)) for number, events in enumerate(case.attempts, 1)
    ]
    label, placed = place_events(attempts)
    events = [event for attempt in placed for event in attempt.events]
    assert label == case.want_label
    assert [e.step for e in events if isinstance(e, Progress)] == case.want_places


def test_resume_lies_at_its_epoch() -> None:
    attempts = [AttemptHistory(1, (Progress(time=0, epoch=1),)), AttemptHistory(2, (start(POINT),))]
    _, placed = place_events(attempts)
    assert placed[1].started
    assert placed[1].started.resumed_from
    assert placed[1].started.resumed_from.step == 1
