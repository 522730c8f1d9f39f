"""Each try has an id of its own; one that goes on is not tried again."""

import pytest

from trainshed.jobs.ids import choose_id
from trainshed.jobs.jobs_api import Job

HASH = "1a2b3c4d5e6f"


def make_job(job_id: str, status: str = "SUCCEEDED") -> Job:
    """Return a job of a status."""
    return Job(job_id, status, "", 0.0, None, None)


CASES: dict[str, tuple[list[Job], tuple[str, bool]]] = {
    "the first one": ([], ("digits-1a2b3c4d-1", False)),
    "one that goes on": (
        [make_job("digits-1a2b3c4d-1", "RUNNING")],
        ("digits-1a2b3c4d-1", True),
    ),
    "one that has not begun": (
        [make_job("digits-1a2b3c4d-1", "PENDING")],
        ("digits-1a2b3c4d-1", True),
    ),
    "after one that ended": ([make_job("digits-1a2b3c4d-1")], ("digits-1a2b3c4d-2", False)),
    "after ten, of which some are forgotten": (
        [make_job("digits-1a2b3c4d-10", "FAILED"), make_job("digits-1a2b3c4d-9")],
        ("digits-1a2b3c4d-11", False),
    ),
    "others' jobs": (
        [
            make_job("digits-99999999-4", "RUNNING"),
            make_job("more-digits-1a2b3c4d-5", "RUNNING"),
            make_job("digits-1a2b3c4d-x", "RUNNING"),
            make_job("raysubmit_1", "RUNNING"),
        ],
        ("digits-1a2b3c4d-1", False),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_id(case: str) -> None:
    jobs, want = CASES[case]

    assert choose_id("digits", HASH, jobs) == want
