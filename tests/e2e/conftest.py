"""A whole cluster for the tests of this folder, and words for what went wrong on it."""

import shutil
import subprocess
import sys
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from hack.cluster.bare import BareCluster
from hack.cluster.diagnosis import diagnose
from hack.cluster.failure import ClusterError
from tests.e2e.bundle import NAMESPACE, RELEASE, Bundle, prepare_bundle, uses_real_operator
from tests.e2e.running import NAME, ROOT, RunningCluster, bring_up, hold, take_down
from tests.e2e.runs import USER_CODE, Runs
from tests.e2e.story import tell_of_runs
from tests.e2e.times import Times

_RUNNING = pytest.StashKey["RunningCluster"]()
# What the steps of the tests took, for who wonders where the time went.
TIMES = pytest.StashKey[Times]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all of this folder, before `-m` chooses among the tests."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("e2e")


@pytest.fixture(scope="session")
def times(request: pytest.FixtureRequest) -> Times:
    """Where the time went, said at the end."""
    return request.config.stash.setdefault(TIMES, Times())


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, times: Times) -> Iterator[RunningCluster]:
    """A cluster with one node, up before the first test and gone after the last."""
    with hold(NAME):
        take_down(NAME)  # what a killed session left would be tested with the kinds of its day
        with times.measure("cluster up"):
            running = bring_up(NAME)
        request.config.stash[_RUNNING] = running
        yield running
        take_down(NAME)


@pytest.fixture(scope="session")
def bundle(
    cluster: RunningCluster, times: Times, tmp_path_factory: pytest.TempPathFactory
) -> Bundle:
    """The chart and its images on the cluster, not yet installed."""
    return prepare_bundle(cluster, NAME, tmp_path_factory.mktemp("chart"), times)


@pytest.fixture(scope="module")
def installed(bundle: Bundle) -> Iterator[Bundle]:
    """The chart installed: Ray is ready, the digits are on its storage."""
    bundle.uninstall(RELEASE)  # what a test run before this one left in a cluster that was kept
    try:
        with bundle.times.measure("helm install until Ray and the digits are there"):
            bundle.install(RELEASE)
            bundle.wait_for_ray(RELEASE)
            bundle.wait_for_digits()
        yield bundle
    finally:
        bundle.uninstall(RELEASE)


@pytest.fixture(scope="module")
def runs(installed: Bundle) -> Iterator[Runs]:
    """The chart installed, with the user's code on its storage and without TrainingRuns."""
    made = Runs(installed, RELEASE)
    made.forget_all()
    made.give_code(USER_CODE, USER_CODE.glob("*.py"))
    yield made
    installed.kubectl("delete", "trun", "--all", "--timeout=3m")


@pytest.fixture(scope="session")
def enforced_policies(cluster: RunningCluster) -> Iterator[None]:
    """NetworkPolicies count from here on; kind's own network does that by itself."""
    if not isinstance(cluster.cluster, BareCluster):
        yield
        return
    assert shutil.which("nft"), "nothing to enforce policies with: apt-get install nftables"
    command = [sys.executable, "-m", "tests.e2e.enforcer", str(cluster.kubeconfig)]
    enforcer = subprocess.Popen([*cluster.prefix, *command], cwd=ROOT)
    yield
    was_running = enforcer.poll() is None
    enforcer.terminate()
    enforcer.wait()
    assert was_running, "the enforcer ended in the middle; its last words are above"


@pytest.fixture
def e2e_namespace(cluster: RunningCluster) -> Iterator[str]:
    """A fresh namespace that enforces Pod Security `restricted`, gone after the test."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.create_restricted_namespace(name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say of a failed test how Pods and runs do: a time-out alone explains nothing."""
    report = yield
    running = item.config.stash.get(_RUNNING, None)
    if report.failed and running is not None:
        try:
            names = running.kubectl("get", "namespaces", "--output=name").split()
            said = [diagnose(running, name.removeprefix("namespace/")) for name in names]
            if f"namespace/{NAMESPACE}" in names:
                said.append(tell_of_runs(running, NAMESPACE))
        except ClusterError as trouble:
            said = [f"the cluster does not answer: {trouble}"]
        report.sections.append(("cluster", "\n".join(said)))
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say where the time went."""
    if times := config.stash.get(TIMES, None):
        terminalreporter.section("where the time went")
        operator = "the real operator" if uses_real_operator() else "the stand-in"
        terminalreporter.line(f"KubeRay was {operator}")
        for line in times.lines():
            terminalreporter.line(line)
