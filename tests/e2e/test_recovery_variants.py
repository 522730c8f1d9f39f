"""Each way in which rows are mixed and kept, whole: a killed run ends with the very weights.

`make test` has one case whole (tests/app/test_recovery.py) and all of them with the feeder alone.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.ray_run import trainshed, write_run
from tests.app.recovery import (
    assert_lost_and_resumed,
    assert_same_weights,
    last_weights,
    make_kills,
    make_spec,
)
from trainshed_api.names import EXIT_SUCCEEDED

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Case:
    """How rows are mixed and kept, and by how many workers."""

    shuffle: JsonValue
    cache: str
    workers: int


CASES = {
    "file order on 2 workers, kept by them": Case({"mode": "none"}, "workers", 2),
    "files streamed to 3 workers": Case({"mode": "files"}, "none", 3),
    "blocks kept as objects, 3 workers": Case({"mode": "blocks"}, "objects", 3),
    "local windows on 3 workers": Case({"mode": "local", "bufferSize": 32}, "auto", 3),
    "a global shuffle streamed to 3 workers": Case({"mode": "global"}, "none", 3),
}


def write(folder: Path, name: str, case: Case, **config: JsonValue) -> Path:
    how = {"shuffle": case.shuffle, "cache": case.cache, "workers": case.workers}
    return write_run(folder, name, **make_spec(folder, config, **how))  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_losing_a_worker_and_then_the_driver_changes_no_bit(tmp_path: Path, case: Case) -> None:
    write_rows(tmp_path / "rows", 210)
    left_alone = write(tmp_path, "plain", case)
    assert trainshed("run", str(left_alone)).code == EXIT_SUCCEEDED

    killed = write(tmp_path, "killed", case, **make_kills(tmp_path / "killed.yaml"))
    first = trainshed("run", str(killed))
    assert first.code == -9, first.stderr
    second = trainshed("run", str(killed))
    assert second.code == EXIT_SUCCEEDED, second.stderr

    assert_lost_and_resumed(first, second)
    assert_same_weights(last_weights(left_alone), last_weights(killed))
