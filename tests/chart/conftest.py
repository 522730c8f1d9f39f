"""Helm, and the chart with an empty place where KubeRay's chart belongs."""

import pytest

from hack.chart.helm import prepare_chart
from hack.tools.finder import find
from tests.chart.rendering import Renderer


@pytest.fixture(scope="session")
def helm() -> str:
    # Nothing can be said of the chart without it: where it cannot be had, that is an error.
    return str(find("helm"))


@pytest.fixture(scope="session")
def renderer(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return Renderer(helm, prepare_chart(tmp_path_factory.mktemp("chart")))
