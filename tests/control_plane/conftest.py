"""Fixtures of the tests of the CRD and of the controller."""

import json

import pytest

from tests.control_plane.plugin import ControlPlane
from trainshed_api.crd import render_crd


@pytest.fixture(scope="session")
def trainingrun_crd(control_plane: ControlPlane) -> str:
    """The CRD of TrainingRun on the API server; its name."""
    crd = render_crd()
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(crd))
    name = "trainingruns.trainshed.dev"
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{name}")
    return name
