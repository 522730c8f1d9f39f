"""The fixtures of a real API server, for every test that asks for `control_plane`.

One control plane a test process: with pytest-xdist each worker has its own. It listens on
loopback alone, needs no root, and ends with the process that started it.
"""

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hack.cluster.client import Client
from hack.cluster.control_plane import (
    TOOLS,
    WITHOUT_NODES,
    Site,
    answers,
    free_ports,
    start_control_plane,
    stop_control_plane,
    write_identities,
    write_user,
)
from hack.cluster.pki import Authority
from hack.cluster.processes import Launcher
from tests.kuberay.chart import CRD_FILES
from tests.servers import get_tools, mark_users
from trainshed_api.crd import render_crd

ROOT = Path(__file__).resolve().parents[2]
# Where the two CRDs of KubeRay's release are looked for; they are not part of this repository.
CRDS_VARIABLE = "TRAINSHED_KUBERAY_CRDS"
CRDS_NEARBY = ROOT.parent / "shared" / "kuberay-1.7.0"
# Ours take their place where they are not: the same kinds with the fields that we write and read.
CRDS_OF_OURS = ROOT / "tests" / "kuberay" / "crds"
KUBERAY_CRDS = ("rayclusters.ray.io", "rayjobs.ray.io")
_TEST_SECONDS = 300
# Each call of kubectl is a process.
_NAMESPACES_AT_ONCE = 10
_NAMESPACE_SECONDS = 120
_MISSING = pytest.StashKey[str]()


@dataclass(frozen=True, kw_only=True)
class ControlPlane(Client):
    """A running API server, and who may ask it what."""

    url: str
    site: Site
    authority: Authority

    def user_kubeconfig(self, name: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig of a user in these groups, with no rights but theirs."""
        file = f"user-{uuid.uuid4().hex[:8]}"
        return write_user(self.site, self.authority, file, name=name, groups=groups)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark who uses the fixture, before `-m` chooses among the tests."""
    for item in mark_users(items, "control_plane", "control_plane"):
        # The first of them waits for the server; on a busy machine that alone takes a minute.
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TEST_SECONDS))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the tools before the first test."""
    get_tools(session, "control_plane", TOOLS, _MISSING)


@pytest.fixture(scope="session")
def control_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """An API server with etcd and the controllers that namespaces and owners need."""
    if missing := request.config.stash.get(_MISSING, None):
        pytest.skip(missing)
    with run_control_plane(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@contextmanager
def run_control_plane(folder: Path) -> Iterator[ControlPlane]:
    """Run an API server with KubeRay's kinds, etcd, and controllers of namespaces and owners."""
    site = Site(folder, free_ports(), controllers=WITHOUT_NODES)
    authority = write_identities(site)
    launcher = Launcher(folder / "logs", is_tied=True)
    started = start_control_plane(site, launcher, before_controllers=_create_kuberay_crds)
    try:
        yield ControlPlane(
            kubeconfig=site.kubeconfig("admin"), url=site.url, site=site, authority=authority
        )
    finally:
        stop_control_plane(started)


@pytest.fixture(scope="session")
def fresh_namespaces() -> list[str]:
    """Names of namespaces that are ready and hold nothing yet; they end with the API server."""
    return []


@pytest.fixture
def namespace(control_plane: ControlPlane, fresh_namespaces: list[str]) -> str:
    """A fresh namespace for one test."""
    if not fresh_namespaces:
        fresh_namespaces += _make_namespaces(control_plane)
    return fresh_namespaces.pop()


def _make_namespaces(client: Client) -> list[str]:
    names = [f"test-{uuid.uuid4().hex[:8]}" for _ in range(_NAMESPACES_AT_ONCE)]
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    whole = {"apiVersion": "v1", "kind": "List", "items": made}
    client.kubectl("create", "-f", "-", stdin=json.dumps(whole))
    # Without its service account a namespace takes no Pod.
    asked = ("--all-namespaces", "--field-selector=metadata.name=default")
    place = "-o=jsonpath={.items[*].metadata.namespace}"
    deadline = time.monotonic() + _NAMESPACE_SECONDS
    while not set(names) <= set(client.kubectl("get", "sa", *asked, place).split()):
        assert time.monotonic() < deadline, f"no service accounts in {', '.join(names)}"
        time.sleep(0.05)
    return names


def find_kuberay_crds() -> list[Path]:
    """Return the files of KubeRay's two CRDs, or of ours where KubeRay's are not at hand.

    Raises UsageError where the folder that a user named lacks them.
    """
    if named := os.environ.get(CRDS_VARIABLE):
        folder = Path(named).resolve()
        if absent := [name for name in CRD_FILES if not (folder / name).is_file()]:
            raise pytest.UsageError(f"{CRDS_VARIABLE}: {folder} has no {' and no '.join(absent)}")
    else:
        is_nearby = all((CRDS_NEARBY / name).is_file() for name in CRD_FILES)
        folder = CRDS_NEARBY if is_nearby else CRDS_OF_OURS
    return [folder / name for name in CRD_FILES]


def pytest_report_header() -> str:
    """Say whose kinds the API server is given."""
    folder = find_kuberay_crds()[0].parent
    whose = "ours, in the place of KubeRay's" if folder == CRDS_OF_OURS else "KubeRay's"
    return f"RayCluster and RayJob: {whose} ({folder})"


@pytest.fixture(scope="session")
def kuberay_crds(control_plane: ControlPlane) -> tuple[str, ...]:
    """KubeRay's RayCluster and RayJob, which the API server has; the names of the two CRDs."""
    return KUBERAY_CRDS


def _create_kuberay_crds(client: Client) -> None:
    """Create KubeRay's RayCluster and RayJob, and wait until they are served."""
    for file in find_kuberay_crds():
        # Not `apply`: its annotation would exceed what an object may carry.
        client.kubectl("create", "--validate=false", "-f", str(file))
    wait_until_served(client, *KUBERAY_CRDS)


def wait_until_served(client: Client, *kinds: str) -> None:
    """Wait until the API server has these kinds.

    What counts is that they are served; `kubectl wait` fails where a CRD has no conditions yet.
    """
    deadline = time.monotonic() + 120
    while not answers(client, "get", ",".join(kinds), "--all-namespaces"):
        assert time.monotonic() < deadline, f"{' and '.join(kinds)} are not served"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def trainingrun_crd(control_plane: ControlPlane) -> str:
    """The CRD of TrainingRun on the API server; its name."""
    return create_trainingrun_crd(control_plane)


def create_trainingrun_crd(client: Client) -> str:
    """Create the CRD of TrainingRun and wait for it; return its name."""
    crd = render_crd()
    # A release of the chart that is gone leaves its own behind.
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    client.kubectl(*apply, stdin=json.dumps(crd))
    name = "trainingruns.trainshed.dev"
    wait_until_served(client, name)
    return name
