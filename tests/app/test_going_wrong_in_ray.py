"""What goes wrong while a run is under way, with Ray's processes around it.

Variants are in test_going_wrong.py, in one process. Which worker's error counts is decided where
their processes end; the other cases are tests of `make e2e`.
"""

from pathlib import Path

import pytest

from tests.app.failing_runs import THROUGH_RAY, assert_failed
from tests.app.ray_head import Head
from tests.app.ray_run import trainshed, write_run

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

ON_ONE = "an exception of the user's on one of two workers"


@pytest.mark.parametrize(
    "name",
    [
        ON_ONE,
        *(pytest.param(name, marks=pytest.mark.e2e) for name in THROUGH_RAY if name != ON_ONE),
    ],
)
def test_a_run_that_fails_says_why_and_is_not_tried_again(
    head: Head, tmp_path: Path, name: str
) -> None:
    case = THROUGH_RAY[name]
    case.prepare(tmp_path)
    file = write_run(tmp_path, "test", **case.spec)

    assert_failed(trainshed("run", str(file), environment=head.joining), file, case)
