"""Each way in which a run goes wrong, as a whole run with a Ray of its own: minutes in all.

The same cases are tests of `make test` in one process (tests/app/test_going_wrong.py) and, where
Ray's processes matter, in Ray (tests/app/test_going_wrong_in_ray.py).
"""

from pathlib import Path

import pytest

from tests.app.failing_runs import (
    CASES,
    THROUGH_RAY,
    Case,
    assert_a_full_disk_passed,
    assert_failed,
    assert_the_one_before_was_taken,
    damage_the_newest,
    make_spec,
    write_numbers,
)
from tests.app.ray_run import run_folder, trainshed, write_run
from trainshed_api.names import EXIT_SUCCEEDED
from trainshed_api.progress import Evaluated, Started

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ALL_CASES = CASES | THROUGH_RAY


@pytest.mark.parametrize("case", ALL_CASES.values(), ids=ALL_CASES)
def test_a_run_that_fails_says_why_and_is_not_tried_again(tmp_path: Path, case: Case) -> None:
    case.prepare(tmp_path)
    file = write_run(tmp_path, "test", **case.spec)

    assert_failed(trainshed("run", str(file)), file, case)


def test_a_full_disk_ends_no_run(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    file = write_run(tmp_path, "test", **make_spec("fill the disk for a while"))
    output = trainshed("run", str(file))

    assert output.code == EXIT_SUCCEEDED, output.stderr
    assert_a_full_disk_passed(output.events, run_folder(file))
    assert output.stderr == ""


def test_the_checkpoint_before_a_damaged_one_is_taken_and_a_fresh_start_takes_none(
    tmp_path: Path,
) -> None:
    write_numbers(tmp_path)
    file = write_run(tmp_path, "test", **make_spec(epochs=1))
    assert trainshed("run", str(file)).code == EXIT_SUCCEEDED
    damaged = damage_the_newest(run_folder(file))

    # More epochs than the finished run had: it goes on.
    longer = trainshed("run", str(file), "--set", "spec.epochs=2")
    assert longer.code == EXIT_SUCCEEDED, longer.stderr
    assert_the_one_before_was_taken(longer.events, damaged)
    assert [e.step for e in longer.events if isinstance(e, Evaluated)] == [5, 10]

    fresh = trainshed("run", str(file), "--fresh")
    assert fresh.code == EXIT_SUCCEEDED, fresh.stderr
    started = next(event for event in fresh.events if isinstance(event, Started))
    assert (started.attempt, started.resumed_from) == (3, None)
    assert (damaged / "model.pt").stat().st_size == 1000
    assert sorted(path.name for path in run_folder(file).glob("attempts/*")) == ["1", "2", "3"]
