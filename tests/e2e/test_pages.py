"""The commands of the page about shared clusters print what the page shows."""

from pathlib import Path

import pytest

from hack.pages import list_pages, run_page
from tests.control_plane.plugin import ControlPlane


@pytest.mark.usefixtures("trainingrun_crd")
def test_the_page_about_shared_clusters_shows_what_its_commands_print(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server has the kinds and no controller: the run stays as it was applied."""
    control_plane.kubectl("create", "namespace", "team")
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    [page] = list_pages("shared-cluster")

    assert run_page(page, tmp_path) == []
