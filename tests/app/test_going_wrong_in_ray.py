"""What goes wrong while a run is under way, with Ray's processes around it.

Variants are in test_going_wrong.py, in one process; tests/e2e/test_failure_variants.py has them all
as whole runs.
"""

from pathlib import Path

import pytest

from tests.app.failing_runs import THROUGH_RAY, assert_failed
from tests.app.ray_head import Head
from tests.app.ray_run import trainshed, write_run

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def test_an_exception_on_one_of_two_workers_is_the_end_and_is_not_tried_again(
    head: Head, tmp_path: Path
) -> None:
    """Joins a Ray: which worker's error counts is decided where their processes end."""
    case = THROUGH_RAY["an exception of the user's on one of two workers"]
    case.prepare(tmp_path)
    file = write_run(tmp_path, "test", **case.spec)

    assert_failed(trainshed("run", str(file), environment=head.joining), file, case)
