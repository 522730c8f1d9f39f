"""What is kept of drivers' words, when a run is looked at for them, and how well one is heard."""

from dataclasses import dataclass, field

import pytest

from tests.controller.builders_view import UID, make_snapshot
from trainshed_api.progress import Progress
from trainshed_api.records import CheckpointRecord
from trainshed_api.snapshot import Snapshot
from trainshed_controller.model import SILENT_SECONDS, Heard
from trainshed_controller.snapshots import SnapshotStore


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Listener:
    """A store with a clock."""

    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.store = SnapshotStore(self.clock)

    def hear(self, *snapshots: Snapshot, apart: float = 5.0) -> int:
        """Hear one after the other; return how many of them were worth a look at once."""
        looks = 0
        for snapshot in snapshots:
            self.clock.now += apart
            looks += self.store.put(UID, snapshot)
        return looks

    @property
    def step(self) -> int | None:
        """Return the step of the newest snapshot."""
        newest = self.store.get(UID, 1)
        return newest.progress.step if newest and newest.progress else None


def test_snapshots_that_come_in_time_are_each_worth_a_look() -> None:
    assert Listener().hear(*[make_snapshot(step=n, sequence=n) for n in range(5)]) == 5


ALTERNATING = {
    "states": [make_snapshot(state=state) for state in ("Training", "Stopping")],
    "ends": [make_snapshot(state=state) for state in ("Ended", "Training")],
    "first steps": [make_snapshot(), make_snapshot(progress=None)],
    "places to resume from": [make_snapshot(folder=folder) for folder in "ab"],
}


@pytest.mark.parametrize("case", ALTERNATING)
def test_what_alternates_without_end_is_looked_at_as_often_as_anything(case: str) -> None:
    looks = Listener().hear(*(ALTERNATING[case] * 500), apart=0.001)

    # A second: five looks, and one for each of first word, first step and end.
    assert looks <= 5 + 3


def test_first_word_first_step_and_end_are_looked_at_at_once_and_once() -> None:
    starting = make_snapshot(state="Starting", progress=None)
    ended = make_snapshot(state="Ended")

    listener = Listener()
    looks = [
        listener.hear(snapshot, apart=0.01)
        for snapshot in (starting, starting, make_snapshot(), ended, ended)
    ]

    assert looks == [1, 0, 1, 1, 0]


def test_the_next_attempt_has_a_first_word_of_its_own() -> None:
    listener = Listener()

    assert listener.hear(make_snapshot(1), make_snapshot(2), apart=0.01) == 2
    assert listener.store.get(UID, 1) is None
    assert listener.store.get(UID, 2) is not None


def test_a_snapshot_that_was_overtaken_is_dropped() -> None:
    listener = Listener()

    listener.hear(make_snapshot(step=9, sequence=2), make_snapshot(step=1, sequence=1), apart=0.1)

    assert listener.step == 9


def test_a_driver_that_counts_anew_is_heard() -> None:
    listener = Listener()
    listener.hear(make_snapshot(step=9, sequence=50), apart=0.1)
    listener.hear(make_snapshot(step=10, at=1.0, sequence=1), apart=0.1)

    assert listener.step == 10


def test_a_lie_about_sequence_and_time_silences_a_driver_for_seconds_only() -> None:
    listener = Listener()
    lie = make_snapshot(step=99, sequence=10**15, time=2e11)

    listener.hear(lie)
    listener.hear(*[make_snapshot(step=n, sequence=n) for n in (1, 2, 3)])

    assert listener.step == 3


def test_nothing_heard_is_silence_since_it_is_listened_for() -> None:
    listener = Listener()
    listener.store.heard(UID, 1)
    listener.clock.now += 30

    assert listener.store.heard(UID, 1) == Heard(silent_seconds=30.0)


def test_time_stands_still_between_snapshots_of_the_same_step() -> None:
    listener = Listener()
    listener.hear(make_snapshot(step=6), *[make_snapshot(step=7)] * 4)
    listener.clock.now += 100

    heard = listener.store.heard(UID, 1)

    assert heard == Heard(5, still_seconds=15.0, silent_seconds=100.0)


def test_the_first_step_of_each_attempt_is_one_until_it_is_written() -> None:
    listener, seen = Listener(), []
    for number in (1, 2):
        for step in (None, 0, 1, None, 1):
            progress = step is not None and make_snapshot(step=step).progress
            listener.hear(make_snapshot(number, progress=progress or None))
            seen.append(listener.store.heard(UID, number).first_step)
            if step == 1:
                listener.store.written(UID)

    assert seen == [False, True, True, False, False] * 2


def test_what_was_under_way_before_anybody_listened_has_no_first_step() -> None:
    listener = Listener()
    listener.hear(make_snapshot(step=6), make_snapshot(step=7))

    assert not listener.store.heard(UID, 1).first_step


def test_a_step_that_nobody_has_seen_is_not_taken_for_written() -> None:
    listener = Listener()
    listener.hear(make_snapshot(progress=None), make_snapshot())

    listener.store.written(UID)

    assert listener.store.heard(UID, 1).first_step


STARTING = make_snapshot(state="Starting", progress=None, hosts=("w1",))
ASKED = make_snapshot(progress=None, steps_begun=True)
EXPECTS_A_STEP = {"the workers are there": STARTING, "the function asked for a batch": ASKED}
EXPECTS_NONE = {
    "there are no workers": make_snapshot(state="Starting", progress=None),
    "a loop of the function's own": make_snapshot(progress=None),
    "what reports no steps": make_snapshot(progress=Progress(time=1.0, loss=0.3), steps_begun=True),
    "lost workers that wait for room": ASKED.model_copy(update={"restarting": True}),
    "a stop": ASKED.model_copy(update={"state": "Stopping"}),
}


@pytest.mark.parametrize("case", EXPECTS_A_STEP)
def test_time_passes_between_snapshots_that_expect_the_first_step(case: str) -> None:
    listener = Listener()
    listener.hear(*[EXPECTS_A_STEP[case]] * 4)
    listener.clock.now += 100

    heard = listener.store.heard(UID, 1)

    assert heard == Heard(4, first_step_seconds=15.0, silent_seconds=100.0)


@pytest.mark.parametrize("case", EXPECTS_NONE)
def test_no_first_step_is_waited_for_where_none_may_ever_be_told(case: str) -> None:
    listener = Listener()

    listener.hear(*[EXPECTS_NONE[case]] * 4)

    heard = listener.store.heard(UID, 1)
    assert (heard.first_step_seconds, heard.still_seconds) == (0.0, 0.0)


EVALUATED = ASKED.model_copy(update={"metrics": {"valid.loss": 0.5}})
SAVED = ASKED.model_copy(update={"checkpoint": CheckpointRecord(path="/c", epoch=1, step=10)})
AFTER_WAITING = {
    "the function is called": (STARTING, make_snapshot(progress=None)),
    "it asks for its first batch": (STARTING, ASKED),
    "an evaluation before the first step": (ASKED, EVALUATED),
    "a checkpoint before the first step": (ASKED, SAVED),
    "workers are lost": (ASKED, ASKED.model_copy(update={"restarting": True})),
    "the first step": (ASKED, make_snapshot(step=1, steps_begun=True)),
    "the first step of a resumed attempt": (ASKED, make_snapshot(step=501, steps_begun=True)),
}


@pytest.mark.parametrize("case", AFTER_WAITING)
def test_the_wait_for_the_first_step_is_over_or_begins_anew_with(case: str) -> None:
    listener, (before, then) = Listener(), AFTER_WAITING[case]

    listener.hear(*[before] * 4, then)

    heard = listener.store.heard(UID, 1)
    assert (heard.first_step_seconds, heard.still_seconds) == (0.0, 0.0)


def test_silence_is_no_wait_for_the_first_step() -> None:
    listener = Listener()
    listener.hear(ASKED)
    listener.clock.now += 7200
    listener.hear(ASKED)

    assert listener.store.heard(UID, 1).first_step_seconds == 0.0


MOVING = {
    "another step": make_snapshot(step=8),
    "another epoch": make_snapshot(
        progress=make_snapshot(step=7).progress.model_copy(update={"epoch": 2})  # type: ignore[union-attr]  # it has one
    ),
    "no step to be expected": make_snapshot(step=7, state="Stopping"),
}


@pytest.mark.parametrize("case", MOVING)
def test_what_moves_does_not_stand_still(case: str) -> None:
    listener = Listener()

    listener.hear(*[make_snapshot(step=7)] * 4, MOVING[case])

    assert listener.store.heard(UID, 1).still_seconds == 0.0


def test_one_snapshot_alone_is_no_standstill() -> None:
    listener = Listener()
    listener.hear(make_snapshot())
    listener.clock.now += 10_000

    assert listener.store.heard(UID, 1).still_seconds == 0.0


def test_time_does_not_stand_still_while_nothing_is_heard() -> None:
    listener = Listener()
    listener.hear(make_snapshot(step=5))
    listener.clock.now += 3600
    listener.hear(make_snapshot(step=5))
    assert listener.store.heard(UID, 1).still_seconds == 0.0

    listener.hear(make_snapshot(step=5))
    assert listener.store.heard(UID, 1).still_seconds == 5.0


def test_a_driver_that_is_heard_now_and_then_may_stand_still() -> None:
    listener = Listener()

    listener.hear(*[make_snapshot(step=5)] * 3, apart=SILENT_SECONDS)

    assert listener.store.heard(UID, 1).still_seconds == 2 * SILENT_SECONDS


def test_lies_that_overtake_a_driver_do_not_make_it_stand_still() -> None:
    listener = Listener()
    lie = make_snapshot(step=99, sequence=10**15, time=2e11)

    for number in range(1, 100):
        listener.hear(lie, make_snapshot(step=number, sequence=number))
        assert 0.0 <= listener.store.heard(UID, 1).still_seconds <= 5.0


def test_a_word_from_before_another_replica_acted_is_forgotten_unless_it_was_the_last() -> None:
    listener = Listener()
    listener.hear(make_snapshot())
    listener.store.put("ended", make_snapshot(state="Ended"))
    listener.clock.now += SILENT_SECONDS
    listener.store.put("fresh", make_snapshot())

    listener.store.forget_silent()

    assert listener.store.get(UID, 1) is None
    assert listener.store.get("ended", 1)
    assert listener.store.get("fresh", 1)
    assert listener.store.heard(UID, 1) == Heard()


def test_what_is_forgotten_takes_no_room() -> None:
    listener = Listener()
    listener.hear(make_snapshot())

    listener.store.forget(UID)

    assert len(listener.store) == 0
