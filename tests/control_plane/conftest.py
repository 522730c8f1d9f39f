"""Fixtures of the tests of the CRD and of the controller."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.chart.helm import prepare_chart, render_chart
from hack.tools.finder import find
from tests.control_plane.plugin import ControlPlane
from tests.control_plane.world import World
from tests.control_plane.worlds import ACCOUNT, ANY_NAMESPACE, Worlds

HERE = Path(__file__).parent
# Seconds on an idle machine; on a busy one a process alone takes half a minute to start.
_WORLD_SECONDS = 400


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of the controller their time."""
    for item in items:
        is_ours = item.path.is_relative_to(HERE) and "worlds" in getattr(item, "fixturenames", ())
        if is_ours and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_WORLD_SECONDS))


@pytest.fixture(scope="session")
def chart(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart, with an empty place where KubeRay's belongs."""
    return prepare_chart(tmp_path_factory.mktemp("chart"))


@pytest.fixture(scope="session")
def rendered_account(chart: Path) -> str:
    """The controller's ServiceAccount with exactly the chart's rights, for any namespace."""
    shown = ("controller/serviceaccount", "roles", "controller/key", "controller/lease")
    options = [f"--show-only=templates/{name}.yaml" for name in shown]
    options += ["--set=preset=laptop"]
    return render_chart(str(find("helm")), chart, *options, namespace=ANY_NAMESPACE)


@pytest.fixture
def identity(control_plane: ControlPlane, rendered_account: str, namespace: str) -> Path:
    """The controller's ServiceAccount in a fresh namespace."""
    objects = rendered_account.replace(ANY_NAMESPACE, namespace)
    control_plane.kubectl("create", "-f", "-", stdin=objects)
    account = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    return control_plane.user_kubeconfig(account, groups=["system:serviceaccounts"])


@pytest.fixture
def worlds(  # noqa: PLR0917  # fixtures, by name
    control_plane: ControlPlane,
    kuberay_crds: tuple[str, ...],
    trainingrun_crd: str,
    rendered_account: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> Worlds:
    """Makes clusters with a controller at work in each, as its own ServiceAccount."""
    caplog.set_level(logging.INFO, "trainshed")
    return Worlds(control_plane, rendered_account, tmp_path)


@pytest.fixture
async def world(worlds: Worlds) -> AsyncIterator[World]:
    """A cluster with the controller at work as its own ServiceAccount."""
    async with worlds.open() as made:
        yield made
