"""What goes wrong while a run is under way ends it with one clear word, or does not end it.

Here on one worker in this process; test_going_wrong_in_ray.py has what takes Ray's processes.
"""

from pathlib import Path

import pytest

from tests.app.alone import train_alone
from tests.app.failing_runs import (
    CASES,
    Case,
    assert_a_full_disk_passed,
    assert_finite_checkpoints,
    assert_the_one_before_was_taken,
    assert_users_traceback,
    damage_the_newest,
    make_data,
    make_spec,
    write_numbers,
)
from trainshed.ray_train.lost_workers import is_users_failure
from trainshed_api.names import APPLICATION, FAILED, INFRASTRUCTURE, OUT_OF_MEMORY, SUCCEEDED
from trainshed_api.progress import Evaluated, Started, WorkersLost

# --------------------------------------------------------- what ends a run


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_that_fails_says_why_and_is_not_tried_again(tmp_path: Path, case: Case) -> None:
    case.prepare(tmp_path)
    left = train_alone(tmp_path, case.spec)

    assert (left.verdict.outcome, left.verdict.cause) == (FAILED, APPLICATION)
    assert left.finished.outcome == FAILED
    assert left.finished.message == left.verdict.message
    assert case.message.replace("FOLDER", str(tmp_path)) in left.finished.message
    assert "\n" not in left.finished.message
    assert left.verdict.traceback
    assert_users_traceback(left.verdict.traceback, case.frames)
    assert left.error
    assert is_users_failure(left.error)  # what nobody tries again
    assert len([event for event in left.events if isinstance(event, Started)]) == 1
    assert not [event for event in left.events if isinstance(event, WorkersLost)]
    assert left.folder.attempts() == [1]
    assert (left.path / "report.html").exists()
    assert_finite_checkpoints(left.path)


# What the world does to the user's function: the cause, whether workers start again, the message.
FAULTS = {
    "EIO": (INFRASTRUCTURE, True, "the storage failed: OSError: [Errno 5] Input/output error: "),
    "ENOSPC": (INFRASTRUCTURE, False, "the storage is full: OSError: [Errno 28] No space left on "),
    "ENOMEM": (OUT_OF_MEMORY, False, "OSError: [Errno 12] Cannot allocate memory: "),
}


@pytest.mark.parametrize("how", FAULTS)
def test_a_fault_of_the_world_is_not_booked_as_the_programs(tmp_path: Path, how: str) -> None:
    cause, starts_again, message = FAULTS[how]
    write_numbers(tmp_path)
    left = train_alone(tmp_path, make_spec(how))

    assert (left.verdict.outcome, left.verdict.cause) == (FAILED, cause)
    assert left.verdict.message.startswith(message)
    assert "'/data/pictures'" in left.verdict.message
    assert left.error
    assert is_users_failure(left.error) is not starts_again


# ----------------------------------------------------- what does not end a run


def test_a_full_disk_ends_no_run(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    spec = make_spec("fill the disk for a while", data=make_data())
    left = train_alone(tmp_path, spec)

    assert left.verdict.outcome == left.finished.outcome == SUCCEEDED
    assert left.verdict.traceback is None
    assert_a_full_disk_passed(left.events, left.path)


def test_the_checkpoint_before_a_damaged_one_is_taken_and_a_fresh_start_takes_none(
    tmp_path: Path,
) -> None:
    write_numbers(tmp_path)
    spec = make_spec(data=make_data())
    first = train_alone(tmp_path, {**spec, "epochs": 1})
    assert first.verdict.outcome == SUCCEEDED
    damaged = damage_the_newest(first.path)

    # More epochs than the finished run had: it goes on.
    longer = train_alone(tmp_path, {**spec, "epochs": 2})
    assert longer.verdict.outcome == SUCCEEDED
    assert_the_one_before_was_taken(longer.events, damaged)
    assert [event.step for event in longer.events if isinstance(event, Evaluated)] == [5, 10]

    fresh = train_alone(tmp_path, {**spec, "epochs": 1}, fresh=True)
    assert fresh.verdict.outcome == SUCCEEDED
    assert (fresh.started.attempt, fresh.started.resumed_from) == (3, None)
    assert (damaged / "model.pt").stat().st_size == 1000
    assert fresh.folder.attempts() == [1, 2, 3]
