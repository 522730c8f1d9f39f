"""A killed run ends with the very weights of one that was left alone.

One case whole, with Rays of its own that are lost with their drivers. How rows are mixed and kept
makes no difference to it: tests/app/data has each way.
"""

from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.processes import Mark
from tests.app.ray_head import Head
from tests.app.ray_run import Output, finish, start, trainshed, write_run
from tests.app.recovery import (
    assert_lost_and_resumed,
    assert_same_weights,
    last_weights,
    loss_of,
    make_kills,
    make_spec,
    wait_for_the_end_of_its_ray,
)
from tests.app.storages import IN_BUCKET, Home, make_runs
from trainshed_api.names import EXIT_SUCCEEDED
from trainshed_api.progress import Evaluated

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

PATIENCE = 400
# Fewer than the steps' rows, and no number that 3 workers share evenly.
SCORED = 11


def write_streamed(folder: Path, name: str, storage: str = "runs", **config: JsonValue) -> Path:
    """Write a run on 3 workers of rows in any order, streamed to them, and of a few to score."""
    spec = make_spec(folder, config, shuffle={"mode": "global"}, cache="none", workers=3)
    spec["storage"] = storage
    read: JsonValue = {"format": "parquet", "path": str(folder / "few")}
    spec["data"]["datasets"]["valid"] = {"read": read}  # type: ignore[index,call-overload]  # JSON
    return write_run(folder, name, **spec)


def scores_of(output: Output) -> list[float | None]:
    """Return the losses on the rows to score, by epoch."""
    return [event.metrics["valid.loss"] for event in output.events if isinstance(event, Evaluated)]


@pytest.fixture(params=IN_BUCKET)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """Where the run lies that is killed, seen as `runs` beside its file."""
    return make_runs(str(request.param), request, tmp_path)


def test_losing_a_worker_and_then_the_driver_changes_no_bit(
    tmp_path: Path, head: Head, storage: Home
) -> None:
    write_rows(tmp_path / "rows", 210)
    write_rows(tmp_path / "few", SCORED, files=2, row_group_size=3)
    # Left alone: where its Ray comes from changes no bit either.
    (tmp_path / "alone").mkdir()
    for shared in ("rows", "few"):
        (tmp_path / "alone" / shared).symlink_to(tmp_path / shared)
    left_alone = write_streamed(tmp_path / "alone", "plain")
    plain = trainshed("run", str(left_alone), environment=head.joining, timeout_seconds=PATIENCE)
    assert plain.code == EXIT_SUCCEEDED, plain.stderr

    kills = make_kills(tmp_path / "killed.yaml")
    killed = write_streamed(tmp_path, "killed", storage.address, **kills)
    mark = Mark()
    reached = dict(storage.environment)
    driver = start("run", str(killed), environment=mark.environment | reached)
    driver.wait(PATIENCE)
    wait_for_the_end_of_its_ray(mark)
    first = finish(driver)
    assert first.code == -9, first.stderr
    second = trainshed("run", str(killed), environment=reached, timeout_seconds=PATIENCE)
    assert second.code == EXIT_SUCCEEDED, second.stderr

    assert_lost_and_resumed(first, second)
    got = last_weights(killed)
    assert_same_weights(last_weights(left_alone), got)

    # Scores are of every row once, whoever of the workers had it, and by the same statistics.
    assert scores_of(plain)[-1] == scores_of(second)[-1]
    assert scores_of(second)[-1] == pytest.approx(loss_of(got, tmp_path / "few"), rel=1e-5)
