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
    run_state = RunState(START)
    group = run_state.join(START + 5, 0)
    run_state.update(group, spent(training=2, waitingForData=1), [])
    run_state.leave(
        group, START + 15, spent(training=6, waitingForData=2, evaluating=2), make_ending()
    )

    assert run_state.seconds(START + 18) == {
        "starting": 5.0,
        "training": 6.0,
        "waitingForData": 2.0,
        "evaluating": 2.0,
        "checkpointing": 0.0,
        "stopping": 3.0,
    }


def test_what_workers_have_not_said_yet_is_no_measure_of_training() -> None:
    run_state = RunState(START)
    group = run_state.join(START + 5, 0)
    assert run_state.measured(START + 8) == {"starting": 5.0, "training": 3.0}
    run_state.update(group, spent(training=2, waitingForData=1), [])

    assert run_state.measured(START + 60) == {
        "starting": 5.0,
        **spent(training=2, waitingForData=1),
    }


def test_ranks_that_all_wait_for_rows_stop_after_the_step_that_all_have_done() -> None:
    run_state = RunState(START)
    group = run_state.join(START, 0)
    assert not run_state.wait(group, 0, 7, 2)
    assert not run_state.wait(group, 1, 7, 2)
    run_state.stop_reason = "Suspended"

    assert run_state.wait(group, 1, 7, 2)
    assert not run_state.waiting_ranks  # all wait, so nobody waits for them
    assert run_state.go_on(group, 0)  # its rows have come meanwhile, and the other one has left
    assert run_state.wait(group, 0, 7, 2)


def test_a_rank_whose_rows_have_come_does_not_wait_any_more() -> None:
    run_state = RunState(START, stop_reason="Suspended")
    group = run_state.join(START, 0)
    assert not run_state.wait(group, 0, 7, 2)
    assert list(run_state.waiting_ranks) == [0]
    assert not run_state.go_on(group, 0)
    assert not run_state.waiting_ranks

    assert not run_state.wait(group, 1, 7, 2)


def test_ranks_that_wait_after_different_steps_do_not_stop_there() -> None:
    run_state = RunState(START, stop_reason="Suspended")
    group = run_state.join(START, 0)

    assert not run_state.wait(group, 0, 7, 2)
    assert not run_state.wait(group, 1, 8, 2)


def test_a_lost_group_does_not_wait_any_more() -> None:
    run_state = RunState(START, stop_reason="Suspended")
    first = run_state.join(START, 0)
    assert not run_state.wait(first, 0, 0, 2)
    second = run_state.join(START + 5, 0)

    assert not run_state.wait(first, 1, 0, 2)
    assert not run_state.wait(second, 1, 0, 2)
    assert run_state.wait(second, 0, 0, 2)


def test_what_a_lost_group_did_after_the_checkpoint_is_lost() -> None:
    run_state = RunState(START)
    first = run_state.join(START + 5, 0)
    run_state.mark(first, START + 9, 40, spent(training=4))
    run_state.update(first, spent(training=9, waitingForData=1), [])
    second = run_state.join(START + 20, 40)
    run_state.leave(second, START + 23, spent(training=3), make_ending())

    assert run_state.seconds(START + 23) == {
        **spent(training=7),
        "starting": 5.0,
        "lost": 11.0,
        "stopping": 0.0,
    }


def test_without_a_checkpoint_all_of_a_lost_group_is_lost() -> None:
    run_state = RunState(START)
    first = run_state.join(START + 5, 0)
    run_state.update(first, spent(training=9), [])
    run_state.join(START + 20, 0)

    assert run_state.seconds(START + 21) == {"starting": 5.0, "lost": 15.0, "training": 1.0}


def test_a_checkpoint_that_was_refused_counts_as_none() -> None:
    run_state = RunState(START)
    first = run_state.join(START, 0)
    run_state.mark(first, START + 4, 40, spent(training=4))
    run_state.mark(first, START + 8, 80, spent(training=8))
    run_state.join(START + 10, 40)

    assert run_state.seconds(START + 10)["training"] == 4
    assert run_state.seconds(START + 10)["lost"] == 6


def test_two_losses_add_up() -> None:
    run_state = RunState(START)
    run_state.mark(run_state.join(START, 0), START + 4, 40, spent(training=4))
    run_state.mark(run_state.join(START + 10, 40), START + 13, 80, spent(training=3))
    run_state.join(START + 14, 80)

    assert run_state.seconds(START + 14) == {**spent(training=7), "starting": 0.0, "lost": 7.0}


def test_the_word_of_an_earlier_group_no_longer_counts() -> None:
    run_state = RunState(START)
    zombie = run_state.join(START, 0)
    group = run_state.join(START + 10, 0)
    run_state.update(zombie, spent(evaluating=100), [WarningEvent(time=START, message="zombie")])
    run_state.mark(zombie, START + 11, 40, spent(evaluating=100))
    run_state.leave(zombie, START + 12, spent(evaluating=100), make_ending())
    run_state.update(group, spent(training=3), [WarningEvent(time=START, message="alive")])

    assert run_state.ending is None
    assert [event.message for event in run_state.events if isinstance(event, WarningEvent)] == [
        "alive"
    ]
    assert "evaluating" not in {k for k, v in run_state.seconds(START + 13).items() if v}


def test_a_script_that_fits_twice_starts_twice() -> None:
    run_state = RunState(START)
    run_state.join(START + 5, 0)
    run_state.end(START + 8)
    run_state.join(START + 10, 0)
    run_state.end(START + 11)

    assert run_state.seconds(START + 12) == {"starting": 7.0, "training": 4.0, "stopping": 1.0}


def test_a_checkpoint_that_the_user_wrote_is_no_training() -> None:
    run_state = RunState(START)
    run_state.join(START + 1, 0)
    run_state.hold("checkpointing", 2.0)

    assert run_state.seconds(START + 6) == {"starting": 1.0, "training": 3.0, "checkpointing": 2.0}


def test_a_new_group_goes_on_from_what_the_user_reported() -> None:
    run_state = RunState(START)
    run_state.join(START, 0)
    run_state.report(START + 3, Reported(epoch=1, checkpoint=("c1", 1, None)), [])
    run_state.join(START + 10, 0)

    assert run_state.seconds(START + 10) == {"starting": 0.0, "training": 3.0, "lost": 7.0}


# --------------------------------------------------------------------- events


def test_a_loss_names_the_checkpoint_that_training_goes_on_from() -> None:
    run_state = RunState(START)
    group = run_state.join(START, 0)
    run_state.lose(START + 1, "worker 1 is gone")
    run_state.update(group, {}, [make_saved(10), make_saved(20)])
    run_state.lose(START + 2, "worker 0 is gone")

    losses = [event for event in run_state.events if isinstance(event, WorkersLost)]
    assert [loss.message for loss in losses] == ["worker 1 is gone", "worker 0 is gone"]
    assert losses[0].resumed_from is None
    assert losses[1].resumed_from
    assert losses[1].resumed_from.step == 20


def test_reports_replace_only_what_they_say() -> None:
    run_state = RunState(START)
    run_state.report(
        START, Reported(epoch=1, metrics={"loss": 2.0, "a": 1.0}, checkpoint=("c", 1, 5)), []
    )
    run_state.report(START, Reported(step=9, metrics={"loss": 1.0}), [])

    assert run_state.reported == Reported(1, 9, {"loss": 1.0, "a": 1.0}, ("c", 1, 5))


def test_a_run_that_starts_over_forgets_what_was_reported_before_it() -> None:
    run_state = RunState(START)
    reported = Reported(epoch=13, step=210, checkpoint=("c", 13, 210))
    started = make_started(2).model_copy(update={"resumed_from": reported.resume_point})
    run_state.report(START, reported, [started])
    run_state.join(START, 0)
    run_state.start_over(START + 1)
    run_state.lose(START + 1, "worker 1 is gone")

    assert run_state.reported == Reported()
    _, warning, again, loss = run_state.events
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
    run_state = RunState(START)
    worker: Worker | None = None
    for move, number, share, seconds in moves:
        if move == "join":
            worker = Worker(run_state.join(now, number), now)
        elif move == "lose":
            run_state.lose(now, "gone")
        elif move == "hold":
            run_state.hold("checkpointing", share)
        elif move == "report":
            run_state.report(now, Reported(checkpoint=("c", 1, 1)), [])
        elif move == "end" and worker:
            run_state.end(now)
            worker = None
        elif worker:
            measured = worker.measure(now, share)
            if move == "update":
                run_state.update(worker.group, measured, [])
            elif move == "mark":
                run_state.mark(worker.group, now, number, measured)
            else:
                run_state.leave(worker.group, now, measured, make_ending())
                worker = None
        now += seconds
        total = run_state.seconds(now)

        assert math.fsum(total.values()) == pytest.approx(now - START, abs=1e-6)
        assert min(total.values(), default=0.0) >= -1e-9
