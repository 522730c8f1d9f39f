"""What the chart tells the controller."""

from pathlib import Path

from tests.chart.rendering import Object, Renderer, of_kind, rows, text


def told(objects: list[Object]) -> dict[str, str]:
    """Return the controller's environment."""
    [deployment] = of_kind(objects, "Deployment")
    [container] = rows(deployment, "spec", "template", "spec", "containers")
    return {text(row, "name"): text(row, "value") for row in rows(container, "env")}


def test_the_controller_is_told_which_clusters_are_shared(
    renderer: Renderer, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("controller: {sharedClusters: [red, '1e3']}")

    assert told(renderer.render())["TRAINSHED_CONTROLLER_SHARED_CLUSTERS"] == ""
    assert told(renderer.render(values))["TRAINSHED_CONTROLLER_SHARED_CLUSTERS"] == "red,1e3"
    assert told(renderer.render(values))["TRAINSHED_CONTROLLER_DEFAULT_CLUSTER"] == "trainshed"
