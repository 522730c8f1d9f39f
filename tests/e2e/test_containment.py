"""Large objects and refused RayJobs do not disturb the run beside them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.e2e.running import wait_for
from tests.e2e.runs import ON_GPU_GROUP, Runs, make_counting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("enforced_policies"),
]
SECONDS_PER_STEP = 0.3
# A word of the controller comes no later than this after what it is about.
MOST_SECONDS_LATE = 10.0
STALL_SECONDS = 30
NUM_LARGE = 15
LARGE: JsonValue = {"x": [0] * 650_000}


@pytest.fixture(autouse=True)
def nobody_else(runs: Runs) -> None:
    """No run is left by the test before: it would have the room of this one's."""
    runs.forget_all()


@contextmanager
def healthy_run(runs: Runs, name: str, *, epochs: int = 12) -> Iterator[None]:
    """A run that trains all the while, and is asserted to have ended by itself and in time."""
    workers = ON_GPU_GROUP
    runs.apply(
        make_counting(
            name,
            epochs=epochs,
            seconds_per_step=SECONDS_PER_STEP,
            workers=workers,
            stallDeadlineSeconds=STALL_SECONDS,
        )
    )
    runs.wait_for_step(name, 10)
    yield
    runs.wait_for("Complete", name, minutes=10)
    status = runs.status(name)
    assert [attempt.outcome for attempt in status.attempts] == ["Succeeded"]
    assert runs.starts(name) == [0], "its worker was left alone"
    assert status.completion_time
    late = status.completion_time.timestamp() - ended_at(runs, status.attempts[0].job_id)
    assert late <= MOST_SECONDS_LATE
    assert controller_restarts(runs) == 0


def ended_at(runs: Runs, job_id: str) -> float:
    """Return when the driver of a job ended, in seconds since 1970, as Ray knows it."""
    with runs.bundle.dashboard(runs.release) as dashboard:
        job = json.loads(dashboard.ask("GET", f"/api/jobs/{job_id}").body)
    return float(job["end_time"]) / 1000


def controller_restarts(runs: Runs) -> int:
    """Return how often the controller's container ended."""
    label = "-lapp.kubernetes.io/component=controller"
    path = "-ojsonpath={.items[0].status.containerStatuses[0].restartCount}"
    return int(runs.bundle.kubectl("get", "pod", label, path))


def test_fifteen_objects_of_a_megabyte_each(runs: Runs) -> None:
    with healthy_run(runs, "beside-large", epochs=25):
        for number in range(NUM_LARGE):
            large = make_counting(f"large-{number}", epochs=1, seconds_per_step=0, config=LARGE)
            runs.bundle.kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(large))
        for number in range(NUM_LARGE):
            runs.wait_for("Failed", f"large-{number}", minutes=10)
        failed = runs.status("large-0").condition("Failed")
        assert failed
        assert "96 KiB" in failed.message


def test_a_rayjob_that_a_quota_refuses_is_told_and_may_be_suspended(runs: Runs) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "full"},
        "spec": {"hard": {"count/rayjobs.ray.io": "0"}},
    }
    with healthy_run(runs, "beside-quota"):
        runs.bundle.kubectl("create", "-f", "-", stdin=json.dumps(quota))
        try:
            runs.apply(make_counting("refused", epochs=1, seconds_per_step=0))

            def has_row_counts() -> bool:
                said = runs.status("refused").condition("Progressing")
                return said is not None and said.reason == "RayJobRefused"

            assert wait_for(has_row_counts), runs.status("refused").model_dump_json(indent=1)
            assert "exceeded quota" in runs.bundle.kubectl("describe", "trun", "refused")
            runs.patch("refused", suspend=True)
            runs.wait_for("Suspended", "refused")
        finally:
            runs.bundle.kubectl("delete", "resourcequota", "full")
        runs.patch("refused", suspend=False)
        runs.wait_for("Complete", "refused")
