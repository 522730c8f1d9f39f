"""What tests show on CPUs, on a GPU: a run that dies ends with the very weights.

Each run has a Ray of its own: that of the one that dies is lost with it, and no kept one has a GPU.
"""

from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.processes import Mark
from tests.app.ray_run import finish, run_folder, start, trainshed, write_run
from tests.app.recovery import (
    assert_same_weights,
    last_weights,
    make_spec,
    resumed_step,
    wait_for_the_end_of_its_ray,
)
from trainshed_api.names import EXIT_SUCCEEDED

pytestmark = [pytest.mark.gpu, pytest.mark.ray, pytest.mark.timeout(600)]

PATIENCE_SECONDS = 150


def write_on_gpu(folder: Path, name: str, precision: str, **config: JsonValue) -> Path:
    """Write a run of one worker with a GPU."""
    folder.mkdir()
    write_rows(folder / "rows", 210)
    spec = make_spec(folder, config, shuffle={"mode": "global"}, cache="none", workers=1)
    spec["workers"] = {"count": 1, "resources": {"cpu": "500m", "gpu": 1}}
    return write_run(folder, name, **spec, precision=precision)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_losing_the_driver_changes_no_bit_on_a_gpu(tmp_path: Path, precision: str) -> None:
    left_alone = write_on_gpu(tmp_path / "alone", "plain", precision)
    plain = trainshed("run", str(left_alone), timeout_seconds=PATIENCE_SECONDS)
    assert plain.code == EXIT_SUCCEEDED, plain.stderr

    where = run_folder(tmp_path / "killed" / "killed.yaml")
    killed = write_on_gpu(tmp_path / "killed", "killed", precision, killDriverAt=18, run=str(where))
    mark = Mark()
    driver = start("run", str(killed), environment=mark.environment)
    driver.wait(PATIENCE_SECONDS)
    wait_for_the_end_of_its_ray(mark)
    first = finish(driver)
    assert first.code == -9, first.stderr
    second = trainshed("run", str(killed), timeout_seconds=PATIENCE_SECONDS)
    assert second.code == EXIT_SUCCEEDED, second.stderr

    assert resumed_step(second) == 16
    assert_same_weights(last_weights(left_alone), last_weights(killed))
