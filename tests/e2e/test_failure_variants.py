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
    assert_failed,
    make_spec,
    write_numbers,
)
from tests.app.ray_run import Output, run_folder, trainshed, write_run
from trainshed_api.names import EXIT_SUCCEEDED
from trainshed_api.progress import CheckpointSaved, Evaluated, Started, WarningEvent

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ALL_CASES = CASES | THROUGH_RAY


@pytest.mark.parametrize("case", ALL_CASES.values(), ids=ALL_CASES)
def test_a_run_that_fails_says_why_and_is_not_tried_again(tmp_path: Path, case: Case) -> None:
    case.prepare(tmp_path)
    file = write_run(tmp_path, "test", **case.spec)

    assert_failed(trainshed("run", str(file)), file, case)


def warnings_of(output: Output) -> list[str]:
    return [event.message for event in output.events if isinstance(event, WarningEvent)]


def test_a_full_disk_ends_no_run(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    file = write_run(tmp_path, "test", **make_spec("fill the disk for a while"))
    output = trainshed("run", str(file))

    assert output.code == EXIT_SUCCEEDED, output.stderr
    saved = {event.step for event in output.events if isinstance(event, CheckpointSaved)}
    lines = [line for line in warnings_of(output) if line.startswith("no checkpoint at step")]
    missed = {int(line.split(":")[0].split()[-1]) for line in lines}
    # That of step 6 was being written when the disk was full, and 12 when there was room again.
    assert ({2, 4, 14, 15} <= saved, {8, 10} <= missed) == (True, True)
    assert saved | missed == {2, 4, 6, 8, 10, 12, 14, 15}
    assert all("File too large; training goes on" in line for line in lines)
    assert list(run_folder(file).glob("attempts/1/ray/.writing-*")) == []
    assert output.stderr == ""


def test_the_checkpoint_before_a_damaged_one_is_taken_and_a_fresh_start_takes_none(
    tmp_path: Path,
) -> None:
    write_numbers(tmp_path)
    file = write_run(tmp_path, "test", **make_spec(epochs=1))
    assert trainshed("run", str(file)).code == EXIT_SUCCEEDED
    newest = max(run_folder(file).glob("attempts/1/ray/checkpoint_0*"))
    model = newest / "model.pt"
    model.write_bytes(model.read_bytes()[:1000])

    # More epochs than the finished run had: it goes on.
    longer = trainshed("run", str(file), "--set", "spec.epochs=2")
    assert longer.code == EXIT_SUCCEEDED, longer.stderr
    assert longer.events[0] == next(e for e in longer.events if isinstance(e, WarningEvent))
    assert (
        f"checkpoint refused, taking the one before: {newest}: model.pt has 1000 of"
        in (warnings_of(longer)[0])
    )
    assert started(longer).resumed_from
    assert started(longer).resumed_from.step == 4  # type: ignore[union-attr]  # seen above
    assert [e.step for e in longer.events if isinstance(e, Evaluated)] == [5, 10]

    fresh = trainshed("run", str(file), "--fresh")
    assert fresh.code == EXIT_SUCCEEDED, fresh.stderr
    assert (started(fresh).attempt, started(fresh).resumed_from) == (3, None)
    assert model.stat().st_size == 1000
    assert sorted(path.name for path in run_folder(file).glob("attempts/*")) == ["1", "2", "3"]


def started(output: Output) -> Started:
    return next(event for event in output.events if isinstance(event, Started))
