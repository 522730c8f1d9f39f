"""Nodes of the data's group come while a run wants them, and go when none does."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.app.data.losses import Way, undisturbed
from tests.e2e.bundle import RELEASE, Bundle, uses_real_operator
from tests.e2e.numbered_runs import give_rows, make_numbered, read_lines, steps_of, that_count
from tests.e2e.ran import nodes_of, tasks_of
from tests.e2e.running import wait_for
from tests.e2e.runs import Runs

# The first test waits for the node and for the images on it.
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("enforced_policies"),
    pytest.mark.skipif(not uses_real_operator(), reason="only KubeRay's own operator autoscales"),
]
IDLE_SECONDS = 20
# A Pod of `cpu` has two CPUs.
WAY, CPUS, MOST_PODS = Way("json", "local", "streamed"), 4, 2


@dataclass(frozen=True)
class Growing:
    """Runs of a cluster whose group for data grows.

    Args:
        runs: of it.
        fewest: Pods of the group that are there when nobody wants them.
    """

    runs: Runs
    fewest: int

    def readers(self) -> int:
        """Return how many Pods of the group are ready."""
        return len(self.runs.bundle.ready_pods("cpu"))


@pytest.fixture(params=[0, 1], ids=["from_none", "from_one"])
def growing(bundle: Bundle, request: pytest.FixtureRequest) -> Iterator[Growing]:
    """The chart installed with autoscaling."""
    bundle.uninstall(RELEASE)
    changes = {
        "autoscaling.enabled": "true",
        "autoscaling.idleSeconds": IDLE_SECONDS,
        "groups.gpu.minReplicas": 1,
        "groups.gpu.maxReplicas": 1,
        "groups.cpu.replicas": request.param,
        "groups.cpu.minReplicas": request.param,
        "groups.cpu.maxReplicas": MOST_PODS,
    }
    try:
        with bundle.times.measure("helm install with autoscaling"):
            bundle.install(RELEASE, *(f"--set={name}={value}" for name, value in changes.items()))
            bundle.wait_for_ray(RELEASE)
        runs = Runs(bundle, RELEASE)
        runs.forget_all()
        yield Growing(runs, request.param)
    finally:
        bundle.kubectl("delete", "trun", "--all", "--timeout=3m")
        bundle.uninstall(RELEASE)


def test_the_data_s_group_grows_with_a_run_and_is_small_again_after_it(
    growing: Growing, tmp_path: Path
) -> None:
    runs, bundle = growing.runs, growing.runs.bundle
    give_rows(runs, tmp_path, [WAY.format])
    assert growing.readers() == growing.fewest
    runs.apply(make_numbered("growing", WAY, seconds_per_step=0, seconds_per_row=0.1, cpus=CPUS))
    with bundle.times.measure("a run that has Pods come for its data"):
        assert wait_for(lambda: growing.readers() == MOST_PODS, 600)
        phase = runs.status("growing").phase
        runs.wait_for("Complete", "growing", minutes=10)
    assert phase in ("Starting", "Running"), "they came too late"
    (attempt,) = runs.status("growing").attempts
    assert attempt.outcome == "Succeeded"
    with bundle.dashboard(RELEASE) as dashboard:
        nodes, ran = nodes_of(dashboard), tasks_of(dashboard, attempt.job_id)
    lines = that_count(read_lines(runs, "growing"))
    made_on = {number for line in lines for number in line.node}
    assert [nodes.group_of(number) for number in made_on] == ["cpu"] * MOST_PODS
    assert {task.group for task in ran if task.kind == "NORMAL_TASK"} == {"cpu"}
    for epoch in (0, 1):
        want = undisturbed(WAY, tmp_path, epoch, seed=0)
        assert steps_of(lines, epoch) == [sorted(step) for step in want]
    with bundle.times.measure("what came for data gone after it"):
        assert wait_for(lambda: growing.readers() == growing.fewest, IDLE_SECONDS + 300)
    assert len(bundle.ready_pods("gpu")) == 1
