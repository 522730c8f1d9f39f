"""Helm, and the chart with an empty place where KubeRay's chart belongs."""

import pytest

from hack.chart.helm import prepare_chart
from hack.tools.finder import ToolMissingError, find
from tests.chart.rendering import Renderer


@pytest.fixture(scope="session")
def helm() -> str:
    try:
        return str(find("helm"))
    except ToolMissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def renderer(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return Renderer(helm, prepare_chart(tmp_path_factory.mktemp("chart")))
