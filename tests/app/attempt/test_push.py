"""Snapshots reach the controller, its answers are obeyed, and its absence ends nothing."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hack.cluster.ports import pick_ports
from tests.app.jobs.server import Reply, Server, serve
from tests.builders_run import make_checkpoint, make_finished, make_progress, make_started
from trainshed.attempt.result import AttemptResult
from trainshed.attempt.signals import FENCED, Stop
from trainshed.attempt.snapshot_publisher import (
    ProgressEndpoint,
    SnapshotPublisher,
    Timing,
    read_target,
)
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED, EXIT_TERMINATED
from trainshed_api.progress import WorkersLost
from trainshed_api.snapshot import Snapshot, final_snapshot

GO_ON: Reply = (200, '{"stop": null}')
SOON = 60.0


FAST = Timing(apart=0.01, last=0.2)
# In which as many would have come, were there anything to tell.
SOME_POSTS = 10 * FAST.apart


@contextmanager
def pushing(
    server: Server | None, stop: Stop | None = None, timing: Timing = FAST
) -> Iterator[SnapshotPublisher]:
    """Run a pusher of attempt 2; it ends with the block."""
    target = ProgressEndpoint(f"{server.address}/progress", "secret") if server else None
    publisher = SnapshotPublisher(2, target, time.time() - 10, stop or Stop(), timing)
    publisher.start()
    yield publisher
    publisher.end(AttemptResult("Succeeded", ""), EXIT_SUCCEEDED, None)


def snapshots(server: Server) -> list[Snapshot]:
    return [Snapshot.model_validate_json(body) for _, body in list(server.asked)]


def wait_for(server: Server, wanted: Callable[[Snapshot], bool]) -> Snapshot:
    """Return the first snapshot that is wanted."""
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        found = [snapshot for snapshot in snapshots(server) if wanted(snapshot)]
        if found:
            return found[0]
        time.sleep(0.01)
    raise AssertionError(f"none that is wanted: {snapshots(server)}")


def wait_until(server: Server, state: str) -> Snapshot:
    """Return the first snapshot of a state."""
    return wait_for(server, lambda snapshot: snapshot.state == state)


def test_a_driver_says_that_it_is_there_and_then_each_change_of_state() -> None:
    with serve(lambda *_: GO_ON) as server, pushing(server) as publisher:
        starting = wait_until(server, "Starting")
        publisher.show(make_started(2))
        training = wait_until(server, "Training")

    assert (starting.attempt, starting.wall_seconds >= 10) == (2, True)
    assert training.workers == 2
    assert training.sequence > starting.sequence
    assert server.asked[0][0] == "/progress"
    assert set(server.authorizations) == {"Bearer secret"}


def test_the_first_step_and_checkpoints_are_told_at_once_and_other_steps_in_their_time() -> None:
    with serve(lambda *_: GO_ON) as server, pushing(server) as publisher:
        # Each is heard before the next, so that nothing else is on its way.
        wait_until(server, "Starting")
        publisher.show(make_started(2))
        wait_until(server, "Training")
        publisher.show(make_progress(1))
        wait_for(server, lambda snapshot: snapshot.progress is not None)
        before = len(server.asked)
        for step in range(2, 30):
            publisher.show(make_progress(step))
        time.sleep(SOME_POSTS)
        assert len(server.asked) == before
        publisher.show(make_checkpoint(30))
        last = wait_for(server, lambda snapshot: snapshot.checkpoint is not None)

    assert last.progress
    assert last.progress.step == 29
    assert last.checkpoint
    assert last.checkpoint.step == 30


def test_time_by_bucket_is_told_while_it_goes_on() -> None:
    often = Timing(between=0.02, apart=0.01)
    with serve(lambda *_: GO_ON) as server, pushing(server, timing=often) as publisher:
        publisher.measure({"starting": 4.0, "training": 6.0})
        told = wait_for(server, lambda snapshot: snapshot.seconds.training > 0)

    assert told.seconds.training == 6.0


def test_an_order_to_stop_is_obeyed_once() -> None:
    stop = Stop()
    order = json.dumps({"stop": {"reason": "Suspended", "graceSeconds": 30}})
    with serve(lambda *_: (200, order)) as server, pushing(server, stop):
        assert stop.asked.wait(SOON)

    assert (stop.reason, stop.grace_seconds) == ("Suspended", 30)


def test_whatever_goes_wrong_over_a_loss_the_driver_goes_on_telling() -> None:
    def lose(_: tuple[str, ...]) -> None:
        raise ImportError("no grpc here")

    with serve(lambda *_: (200, '{"gone": ["w1"]}')) as server:
        publisher = SnapshotPublisher(2, ProgressEndpoint(server.address, ""), 0.0, Stop(), FAST)
        publisher.lose = lose
        publisher.start()
        wait_until(server, "Starting")
        publisher.show(make_started(2))
        wait_until(server, "Training")
        publisher.end(AttemptResult("Succeeded", ""), EXIT_SUCCEEDED, None)


def test_where_the_workers_run_is_told_at_once() -> None:
    with serve(lambda *_: GO_ON) as server, pushing(server) as publisher:
        wait_until(server, "Starting")
        publisher.place(("w1", "w2"))
        told = wait_for(server, lambda snapshot: bool(snapshot.hosts))

    assert told.hosts == ("w1", "w2")


def test_pods_that_are_said_to_be_gone_are_lost_soon_after_workers_were() -> None:
    told: list[tuple[str, ...]] = []
    timing = Timing(between=SOON, apart=0.01, after_a_loss=0.02, shaken=SOON)
    with serve(lambda *_: GO_ON) as server:
        publisher = SnapshotPublisher(2, ProgressEndpoint(server.address, ""), 0.0, Stop(), timing)
        publisher.lose = told.append
        publisher.start()
        wait_until(server, "Starting")
        publisher.show(WorkersLost(time=1.0, message="lost worker 1"))
        wait_for(server, lambda snapshot: snapshot.workers_lost > 0)
        # Kubernetes knows a little later, and the next post is not waited for for long.
        server.answer = lambda *_: (200, '{"gone": ["w1"]}')
        deadline = time.monotonic() + SOON
        while not told and time.monotonic() < deadline:
            time.sleep(0.01)
        publisher.end(AttemptResult("Succeeded", ""), EXIT_SUCCEEDED, None)

    assert told[0] == ("w1",)


def test_an_attempt_that_another_has_taken_over_is_fenced_and_says_no_more() -> None:
    stop = Stop()
    with serve(lambda *_: (410, "gone")) as server, pushing(server, stop) as publisher:
        assert stop.asked.wait(SOON)
        posts = len(server.asked)
        publisher.show(make_started(2))
    publisher.deliver()

    assert (stop.reason, stop.grace_seconds) == (FENCED, 0)
    assert len(server.asked) == posts


ODD: dict[str, Reply] = {
    "an error of its own": (500, "oops"),
    "too many requests": (429, ""),
    "not known here, or not yet": (404, ""),
    "no JSON": (200, "<html>"),
    "an answer of a later version": (200, '{"stop": null, "more": 1}'),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_answers_stop_nothing(case: str) -> None:
    stop = Stop()
    with serve(lambda *_: ODD[case]) as server, pushing(server, stop) as publisher:
        wait_until(server, "Starting")
        publisher.show(make_started(2))
        wait_until(server, "Training")

    assert stop.reason is None


def test_an_end_is_told_with_its_cause_and_stands_in_the_log() -> None:
    with serve(lambda *_: GO_ON) as server:
        with pushing(server) as publisher:
            publisher.show(make_started(2))
            publisher.show(make_finished("Failed", message="KeyError: 'x'"))
        verdict = AttemptResult("Failed", "KeyError: 'x'", "the user's traceback", "Application")
        publisher.end(verdict, 1, "/runs/result.json")
        log = publisher.deliver()
        told = snapshots(server)[-1]

    assert (told.state, told.outcome, told.cause) == ("Ended", "Failed", "Application")
    assert (told.exit_code, told.traceback) == (1, "the user's traceback")
    assert (told.message, told.result) == ("KeyError: 'x'", "/runs/result.json")
    logged = final_snapshot(log)
    assert logged
    assert (logged.outcome, logged.exit_code) == ("Failed", 1)


def test_what_training_waits_for_is_told_as_long_as_it_does() -> None:
    with serve(lambda *_: GO_ON) as server, pushing(server) as publisher:
        publisher.show(make_started(2))
        publisher.measure({"training": 1.0}, "waiting for data takes 60 % of the time")
        wait_for(server, lambda told: told.waits_for.endswith("60 % of the time"))
        publisher.measure({"training": 9.0}, None)
        told = wait_for(server, lambda told: told.seconds.training == 9.0)

    assert not told.waits_for


def test_that_the_function_has_asked_for_a_step_is_told() -> None:
    often = Timing(between=0.02, apart=0.01)
    with serve(lambda *_: GO_ON) as server, pushing(server, timing=often) as publisher:
        publisher.measure({"training": 1.0}, steps_begun=True)
        told = wait_for(server, lambda told: told.seconds.training == 1.0)

    assert told.steps_begun


def test_an_end_in_words_that_no_encoding_has_is_told() -> None:
    with serve(lambda *_: GO_ON) as server:
        with pushing(server) as publisher:
            publisher.show(make_started(2))
        publisher.end(
            AttemptResult("Failed", "a\udce9", "in b\ud800", "Application"), 1, "/c\udcff"
        )
        logged = final_snapshot(publisher.deliver())

    assert logged
    assert (logged.message, logged.traceback) == ("a\\udce9", "in b\\ud800")
    assert logged.result == "/c\\udcff"


def test_nothing_is_said_to_have_ended_before_its_cause_is_known() -> None:
    with serve(lambda *_: GO_ON) as server, pushing(server) as publisher:
        wait_until(server, "Starting")
        publisher.show(make_finished("Failed"))
        time.sleep(SOME_POSTS)

        assert {snapshot.state for snapshot in snapshots(server)} == {"Starting"}


def test_an_end_is_told_until_it_is_heard() -> None:
    answers = iter([(500, ""), (503, ""), GO_ON])
    with serve(lambda *_: GO_ON) as server:
        with pushing(server) as publisher:
            wait_until(server, "Starting")
        server.answer = lambda *_: next(answers)
        publisher.deliver()
        ends = [snapshot for snapshot in snapshots(server) if snapshot.state == "Ended"]

    assert len(ends) == 3


def test_a_controller_that_is_away_is_not_waited_for_for_ever() -> None:
    [nobody] = pick_ports(1)
    publisher = SnapshotPublisher(
        1, ProgressEndpoint(f"http://127.0.0.1:{nobody}", ""), time.time(), Stop(), FAST
    )
    publisher.start()
    publisher.show(make_progress(7))
    publisher.end(AttemptResult("Stopped", "Terminated"), EXIT_TERMINATED, None)
    log = final_snapshot(publisher.deliver())

    assert log
    assert (log.outcome, log.exit_code) == ("Stopped", EXIT_TERMINATED)
    assert log.progress
    assert log.progress.step == 7


def test_a_run_that_is_refused_is_told_without_having_started() -> None:
    with serve(lambda *_: GO_ON) as server:
        publisher = SnapshotPublisher(
            1, ProgressEndpoint(server.address, "secret"), time.time(), Stop()
        )
        publisher.refused("spec.epochs: missing", EXIT_INVALID)
        publisher.deliver()

        (told,) = snapshots(server)
    assert (told.cause, told.message) == ("Invalid", "spec.epochs: missing")


def test_without_an_address_nobody_is_told() -> None:
    assert read_target({}) is None
    with pushing(None) as publisher:
        publisher.show(make_started(2))

    assert final_snapshot(publisher.deliver())


def test_address_and_token_come_from_the_environment() -> None:
    environment = {"TRAINSHED_PROGRESS_URL": "http://x/y", "TRAINSHED_PROGRESS_TOKEN": "t"}

    assert read_target(environment) == ProgressEndpoint("http://x/y", "t")
