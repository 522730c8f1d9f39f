"""What goes wrong while a run is under way, with Ray's processes around it.

Variants are in test_going_wrong.py, in one process; tests/e2e/test_failure_variants.py has them all
as whole runs.
"""

from pathlib import Path

import pytest

from tests.app.alone import train_alone
from tests.app.failing_runs import (
    THROUGH_RAY,
    Spec,
    assert_a_full_disk_passed,
    assert_failed,
    assert_the_one_before_was_taken,
    damage_the_newest,
    make_data,
    make_spec,
    own_words,
    warnings_of,
    write_numbers,
)
from tests.app.ray_head import Head
from tests.app.ray_run import run_folder, trainshed, write_run
from trainshed_api.names import EXIT_SUCCEEDED, SUCCEEDED

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def test_an_exception_on_one_of_two_workers_is_the_end_and_is_not_tried_again(
    tmp_path: Path,
) -> None:
    """Starts a Ray: which worker's error counts is decided where their processes end."""
    case = THROUGH_RAY["an exception of the user's on one of two workers"]
    case.prepare(tmp_path)
    file = write_run(tmp_path, "test", **case.spec)

    assert_failed(trainshed("run", str(file)), file, case)


def test_a_row_group_that_cannot_be_read_is_named_by_a_stream(head: Head, tmp_path: Path) -> None:
    """Joins a Ray: the error comes through a task of Ray Data, the feeder and a worker."""
    case = THROUGH_RAY["a row group that cannot be read, with its file"]
    case.prepare(tmp_path)
    file = write_run(tmp_path, "test", **case.spec)

    assert_failed(trainshed("run", str(file), environment=head.joining), file, case)


def test_a_damaged_checkpoint_and_a_full_disk_end_no_run(head: Head, tmp_path: Path) -> None:
    """Joins a Ray: the disk is a worker's, the warnings are the driver's."""
    write_numbers(tmp_path)
    spec = make_spec("fill the disk for a while", data=make_data())
    damaged = leave_a_damaged_checkpoint(tmp_path, spec)
    file = write_run(tmp_path, "digits", **spec)

    output = trainshed("run", str(file), environment=head.joining)

    assert output.code == EXIT_SUCCEEDED, output.stderr
    assert_the_one_before_was_taken(output.events, damaged)
    assert_a_full_disk_passed(output.events, run_folder(file), after=4)
    _, *others = warnings_of(output.events)
    assert all(line.startswith("no checkpoint at step") for line in others)
    assert own_words(output) == ""


def leave_a_damaged_checkpoint(home: Path, spec: Spec) -> Path:
    """Leave what the first epoch of a run left, its last checkpoint cut; return that one."""
    left = train_alone(home, {**spec, "epochs": 1})
    assert left.verdict.outcome == SUCCEEDED
    return damage_the_newest(left.path)
