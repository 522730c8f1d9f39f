"""Where the time of a run went, whatever happened to its workers, and who is believed."""

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders_run import make_started
from trainshed.coordinator.run_state import FunctionResult, Reported, RunState
from trainshed.worker.phase_timer import WORKER_BUCKETS
from trainshed_api.progress import CheckpointSaved, WarningEvent, WorkersLost

START = 1000.0


def make_ending(step: int = 10) -> FunctionResult:
    return FunctionResult(
        stopped=False,
        epoch=1,
        step=step,
        metrics={},
        rate=None,
        data_wait_percent=None,
        checkpoint=None,
    )


def make_saved(step: int) -> CheckpointSaved:
    return CheckpointSaved(time=START, epoch=1, step=step, path=f"c{step}", blocked_seconds=0.0)


def spent(**seconds: float) -> dict[str, float]:
    return {bucket: seconds.get(bucket, 0.0) for bucket in WORKER_BUCKETS}


# ------------------------------------------------------------------ accounts


def test_all_is_starting_before_the_first_group() -> None:
    assert RunState(START).seconds(START + 7) == {"starting": 7.0}


def test_a_run_without_losses() -> None:
    hub = RunState(START)
    group = hub.join(START + 5, 0)
    hub.update(group, spent(training=2, waitingForData=1), [])
    hub.leave(group, START + 15, spent(training=6, waitingForData=2, evaluating=2), make_ending())

    assert hub.seconds(START + 18) == {
        "starting": 5.0,
        "training": 6.0,
        "waitingForData": 2.0,
        "evaluating": 2.0,
        "checkpointing": 0.0,
        "stopping": 3.0,
    }


def test_what_workers_have_not_said_yet_is_no_measure_of_training() -> None:
    hub = RunState(START)
    group = hub.join(START + 5, 0)
    assert hub.measured(START + 8) == {"starting": 5.0, "training": 3.0}
    hub.update(group, spent(training=2, waitingForData=1), [])

    assert hub.measured(START + 60) == {"starting": 5.0, **spent(training=2, waitingForData=1)}


def test_ranks_that_all_wait_for_rows_stop_after_the_step_that_all_have_done() -> None:
    hub = RunState(START)
    group = hub.join(START, 0)
    assert not hub.wait(group, 0, 7, 2)
    assert not hub.wait(group, 1, 7, 2)
    hub.stop_reason = "Suspended"

    assert hub.wait(group, 1, 7, 2)
    assert not hub.waiting_ranks  # all wait, so nobody waits for them
    assert hub.go_on(group, 0)  # its rows have come meanwhile, and the other one has left
    assert hub.wait(group, 0, 7, 2)


def test_a_rank_whose_rows_have_come_does_not_wait_any_more() -> None:
    hub = RunState(START, stop_reason="Suspended")
    group = hub.join(START, 0)
    assert not hub.wait(group, 0, 7, 2)
    assert list(hub.waiting_ranks) == [0]
    assert not hub.go_on(group, 0)
    assert not hub.waiting_ranks

    assert not hub.wait(group, 1, 7, 2)


def test_ranks_that_wait_after_different_steps_do_not_stop_there() -> None:
    hub = RunState(START, stop_reason="Suspended")
    group = hub.join(START, 0)

    assert not hub.wait(group, 0, 7, 2)
    assert not hub.wait(group, 1, 8, 2)


def test_a_lost_group_does_not_wait_any_more() -> None:
    hub = RunState(START, stop_reason="Suspended")
    first = hub.join(START, 0)
    assert not hub.wait(first, 0, 0, 2)
    second = hub.join(START + 5, 0)

    assert not hub.wait(first, 1, 0, 2)
    assert not hub.wait(second, 1, 0, 2)
    assert hub.wait(second, 0, 0, 2)


def test_what_a_lost_group_did_after_the_checkpoint_is_lost() -> None:
    hub = RunState(START)
    first = hub.join(START + 5, 0)
    hub.mark(first, START + 9, 40, spent(training=4))
    hub.update(first, spent(training=9, waitingForData=1), [])
    second = hub.join(START + 20, 40)
    hub.leave(second, START + 23, spent(training=3), make_ending())

    assert hub.seconds(START + 23) == {
        **spent(training=7),
        "starting": 5.0,
        "lost": 11.0,
        "stopping": 0.0,
    }


def test_without_a_checkpoint_all_of_a_lost_group_is_lost() -> None:
    hub = RunState(START)
    first = hub.join(START + 5, 0)
    hub.update(first, spent(training=9), [])
    hub.join(START + 20, 0)

    assert hub.seconds(START + 21) == {"starting": 5.0, "lost": 15.0, "training": 1.0}


def test_a_checkpoint_that_was_refused_counts_as_none() -> None:
    hub = RunState(START)
    first = hub.join(START, 0)
    hub.mark(first, START + 4, 40, spent(training=4))
    hub.mark(first, START + 8, 80, spent(training=8))
    hub.join(START + 10, 40)

    assert hub.seconds(START + 10)["training"] == 4
    assert hub.seconds(START + 10)["lost"] == 6


def test_two_losses_add_up() -> None:
    hub = RunState(START)
    hub.mark(hub.join(START, 0), START + 4, 40, spent(training=4))
    hub.mark(hub.join(START + 10, 40), START + 13, 80, spent(training=3))
    hub.join(START + 14, 80)

    assert hub.seconds(START + 14) == {**spent(training=7), "starting": 0.0, "lost": 7.0}


def test_the_word_of_an_earlier_group_no_longer_counts() -> None:
    hub = RunState(START)
    zombie = hub.join(START, 0)
    group = hub.join(START + 10, 0)
    hub.update(zombie, spent(evaluating=100), [WarningEvent(time=START, message="zombie")])
    hub.mark(zombie, START + 11, 40, spent(evaluating=100))
    hub.leave(zombie, START + 12, spent(evaluating=100), make_ending())
    hub.update(group, spent(training=3), [WarningEvent(time=START, message="alive")])

    assert hub.ending is None
    assert [event.message for event in hub.events if isinstance(event, WarningEvent)] == ["alive"]
    assert "evaluating" not in {k for k, v in hub.seconds(START + 13).items() if v}


def test_a_script_that_fits_twice_starts_twice() -> None:
    hub = RunState(START)
    hub.join(START + 5, 0)
    hub.end(START + 8)
    hub.join(START + 10, 0)
    hub.end(START + 11)

    assert hub.seconds(START + 12) == {"starting": 7.0, "training": 4.0, "stopping": 1.0}


def test_a_checkpoint_that_the_user_wrote_is_no_training() -> None:
    hub = RunState(START)
    hub.join(START + 1, 0)
    hub.hold("checkpointing", 2.0)

    assert hub.seconds(START + 6) == {"starting": 1.0, "training": 3.0, "checkpointing": 2.0}


def test_a_new_group_goes_on_from_what_the_user_reported() -> None:
    hub = RunState(START)
    hub.join(START, 0)
    hub.report(START + 3, Reported(epoch=1, checkpoint=("c1", 1, None)), [])
    hub.join(START + 10, 0)

    assert hub.seconds(START + 10) == {"starting": 0.0, "training": 3.0, "lost": 7.0}


# --------------------------------------------------------------------- events


def test_a_loss_names_the_checkpoint_that_training_goes_on_from() -> None:
    hub = RunState(START)
    group = hub.join(START, 0)
    hub.lose(START + 1, "worker 1 is gone")
    hub.update(group, {}, [make_saved(10), make_saved(20)])
    hub.lose(START + 2, "worker 0 is gone")

    losses = [event for event in hub.events if isinstance(event, WorkersLost)]
    assert [loss.message for loss in losses] == ["worker 1 is gone", "worker 0 is gone"]
    assert losses[0].resumed_from is None
    assert losses[1].resumed_from
    assert losses[1].resumed_from.step == 20


def test_reports_replace_only_what_they_say() -> None:
    hub = RunState(START)
    hub.report(
        START, Reported(epoch=1, metrics={"loss": 2.0, "a": 1.0}, checkpoint=("c", 1, 5)), []
    )
    hub.report(START, Reported(step=9, metrics={"loss": 1.0}), [])

    assert hub.reported == Reported(1, 9, {"loss": 1.0, "a": 1.0}, ("c", 1, 5))


def test_a_run_that_starts_over_forgets_what_was_reported_before_it() -> None:
    hub = RunState(START)
    reported = Reported(epoch=13, step=210, checkpoint=("c", 13, 210))
    started = make_started(2).model_copy(update={"resumed_from": reported.resume_point})
    hub.report(START, reported, [started])
    hub.join(START, 0)
    hub.start_over(START + 1)
    hub.lose(START + 1, "worker 1 is gone")

    assert hub.reported == Reported()
    _, warning, again, loss = hub.events
    assert isinstance(warning, WarningEvent)
    assert warning.message.startswith("not resumed from c: ")
    assert again == make_started(2)
    assert isinstance(loss, WorkersLost)
    assert loss.resumed_from is None


# ------------------------------------------------------- every order of events


@dataclass
class Worker:
    """Rank 0 of a group: a meter that began a little after the group joined."""

    group: int
    began: float
    seconds: dict[str, float] = field(default_factory=spent)

    def measure(self, now: float, share: float) -> dict[str, float]:
        """Return the meter's seconds; the time since the last look goes to two buckets."""
        new = now - self.began - math.fsum(self.seconds.values())
        self.seconds["training"] += share * new
        self.seconds["waitingForData"] += (1 - share) * new
        return dict(self.seconds)


MOVES = st.tuples(
    st.sampled_from(["join", "update", "mark", "report", "hold", "leave", "end", "lose"]),
    st.integers(0, 3),  # which checkpoint a group goes on from
    st.floats(0.0, 1.0),  # how a worker splits its time
    st.floats(0.0, 50.0),  # seconds before the next move
)


@given(st.lists(MOVES, max_size=30))
def test_seconds_add_up_to_the_wall_time(moves: list[tuple[str, int, float, float]]) -> None:
    now = START
    hub = RunState(START)
    worker: Worker | None = None
    for move, number, share, seconds in moves:
        if move == "join":
            worker = Worker(hub.join(now, number), now)
        elif move == "lose":
            hub.lose(now, "gone")
        elif move == "hold":
            hub.hold("checkpointing", share)
        elif move == "report":
            hub.report(now, Reported(checkpoint=("c", 1, 1)), [])
        elif move == "end" and worker:
            hub.end(now)
            worker = None
        elif worker:
            measured = worker.measure(now, share)
            if move == "update":
                hub.update(worker.group, measured, [])
            elif move == "mark":
                hub.mark(worker.group, now, number, measured)
            else:
                hub.leave(worker.group, now, measured, make_ending())
                worker = None
        now += seconds
        total = hub.seconds(now)

        assert math.fsum(total.values()) == pytest.approx(now - START, abs=1e-6)
        assert min(total.values(), default=0.0) >= -1e-9
