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
    assert_failed,
    make_data,
    make_spec,
    own_words,
    write_numbers,
)
from tests.app.ray_head import Head
from tests.app.ray_run import run_folder, trainshed, write_run
from trainshed_api.names import EXIT_SUCCEEDED, SUCCEEDED
from trainshed_api.progress import CheckpointSaved, Started, WarningEvent

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
    spec = make_spec("fill the disk for a while", data=make_data("torch"))
    newest = leave_a_damaged_checkpoint(tmp_path, spec)
    file = write_run(tmp_path, "digits", **spec)

    output = trainshed("run", str(file), environment=head.joining)

    assert output.code == EXIT_SUCCEEDED, output.stderr
    first, *others = [event for event in output.events if isinstance(event, WarningEvent)]
    assert output.events[0] == first
    refused = f"checkpoint refused, taking the one before: {newest}: model.pt has 1000 of"
    assert refused in first.message
    started = next(event for event in output.events if isinstance(event, Started))
    assert started.resumed_from
    assert started.resumed_from.step == 4
    lines = [other.message for other in others]
    assert all("File too large; training goes on" in line for line in lines)
    missed = {int(line.split(":")[0].split()[-1]) for line in lines}
    saved = {event.step for event in output.events if isinstance(event, CheckpointSaved)}
    # That of step 6 was being written when the disk was full, and 12 when there was room again.
    assert ({14, 15} <= saved, {8, 10} <= missed) == (True, True)
    assert saved | missed == {6, 8, 10, 12, 14, 15}
    assert list(run_folder(file).glob("attempts/2/ray/.writing-*")) == []
    assert own_words(output) == ""


def leave_a_damaged_checkpoint(home: Path, spec: Spec) -> Path:
    """Leave what the first epoch of a run left, its last checkpoint cut; return that one."""
    left = train_alone(home, {**spec, "epochs": 1})
    assert left.verdict.outcome == SUCCEEDED
    newest = max(left.folder.path.glob("attempts/1/ray/checkpoint_0*"))
    model = newest / "model.pt"
    model.write_bytes(model.read_bytes()[:1000])
    return newest
