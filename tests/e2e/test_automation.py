"""What docs/automation.md has Argo Workflows apply is a TrainingRun."""

import pytest
import yaml

from tests.bundle.repository import ROOT
from tests.bundle.test_pages import blocks_of
from tests.control_plane.plugin import ControlPlane


@pytest.mark.usefixtures("trainingrun_crd")
def test_the_manifest_that_argo_applies_is_accepted(control_plane: ControlPlane) -> None:
    argo, _ = blocks_of(ROOT / "docs" / "automation.md", "yaml")
    workflow = yaml.safe_load(argo)["spec"]
    [parameter] = workflow["arguments"]["parameters"]
    resource = workflow["templates"][0]["resource"]
    manifest = resource["manifest"].replace("{{workflow.parameters.day}}", parameter["value"])
    control_plane.kubectl("create", "namespace", "trainshed")

    control_plane.kubectl(resource["action"], "-f", "-", stdin=manifest)

    names = control_plane.kubectl("get", "trun", "--namespace", "trainshed", "--output=name")
    assert names.split() == [f"trainingrun.trainshed.dev/digits-{parameter['value']}"]
