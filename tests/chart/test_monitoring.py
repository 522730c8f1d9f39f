"""What Prometheus is told to read, and when somebody is woken."""

import json
import re
from pathlib import Path

import yaml
from prometheus_client import generate_latest

from tests.chart.rendering import VALUES_FILES, Object, Renderer, at, of_kind, rows, table, text
from trainshed_controller.cache import Cache
from trainshed_controller.metrics import Metrics
from trainshed_controller.model import Settings

ROOT = Path(__file__).parents[2]
MONITORING = VALUES_FILES["monitoring-values.yaml"]
ALERTS = {
    "TrainshedControllerDown",
    "TrainshedControllerIdle",
    "TrainshedControllerRestarts",
    "TrainshedInternalErrors",
    "TrainshedRunFailed",
    "TrainshedRunStalled",
    "TrainshedRunWaits",
}


def test_prometheus_reads_the_port_of_the_controller(renderer: Renderer) -> None:
    objects = renderer.render(MONITORING)
    [monitor] = [
        each
        for each in of_kind(objects, "PodMonitor")
        if text(each, "metadata", "name") == "trainshed-controller"
    ]
    [deployment] = of_kind(objects, "Deployment")
    [container] = rows(deployment, "spec", "template", "spec", "containers")
    [endpoint] = rows(monitor, "spec", "podMetricsEndpoints")

    labels = table(deployment, "spec", "template", "metadata", "labels")
    assert table(monitor, "spec", "selector", "matchLabels").items() <= labels.items()
    assert endpoint["port"] in [port["name"] for port in rows(container, "ports")]


def rules(renderer: Renderer, *options: str) -> list[Object]:
    """Return the alerts."""
    [rule] = of_kind(renderer.render(MONITORING, *options), "PrometheusRule")
    return rows(at(rule, "spec", "groups", 0), "rules")


def alerts(renderer: Renderer, *options: str) -> dict[str, str]:
    """Return the expression of each alert."""
    return {text(row, "alert"): text(row, "expr") for row in rules(renderer, *options)}


def test_each_alert_has_a_section_of_the_runbook(renderer: Renderer) -> None:
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs/alerts.md").read_text(), re.MULTILINE)
    urls = {text(row, "alert"): text(row, "annotations", "runbook_url") for row in rules(renderer)}

    assert set(urls) == set(sections)
    assert all(url.endswith(f"/docs/alerts.md#{name.lower()}") for name, url in urls.items())


def test_there_are_alerts_on_a_controller_where_there_is_one(renderer: Renderer) -> None:
    assert set(alerts(renderer)) >= ALERTS
    assert not ALERTS & set(alerts(renderer, "--set=controller.enabled=false"))


def figures_of_the_controller() -> set[str]:
    said = generate_latest(Metrics(Cache(Settings())).registry).decode()
    return set(re.findall(r"^# TYPE (\w+)", said, re.MULTILINE))


def test_the_dashboard_shows_figures_that_the_controller_has(renderer: Renderer) -> None:
    [dashboard] = [
        each
        for each in of_kind(renderer.render(MONITORING), "ConfigMap")
        if "trainshed.json" in table(each, "data")
    ]
    panels = json.loads(text(dashboard, "data", "trainshed.json"))["panels"]
    asked = set(re.findall(r"trainshed_\w+(?=\{)", json.dumps(panels)))

    assert asked <= figures_of_the_controller()
    assert {"trainshed_runs", "trainshed_run_seconds", "trainshed_longest_wait_seconds"} <= asked
    corners = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(corners)) == len(corners) == len({panel["id"] for panel in panels})


def test_prometheus_reads_the_clusters_that_runs_have_for_themselves(renderer: Renderer) -> None:
    objects = renderer.render(MONITORING)
    [classes] = [
        each for each in of_kind(objects, "ConfigMap") if "classes.yaml" in table(each, "data")
    ]
    head = yaml.safe_load(text(classes, "data", "classes.yaml"))["default"]["headGroupSpec"]
    # KubeRay adds this label.
    labels = {**table(head, "template", "metadata", "labels"), "ray.io/node-type": "head"}

    [monitor] = [
        each
        for each in of_kind(objects, "PodMonitor")
        if text(each, "metadata", "name") == "trainshed-head"
    ]
    assert table(monitor, "spec", "selector", "matchLabels").items() <= labels.items()


def test_alerts_on_the_controller_ask_for_figures_that_it_has(renderer: Renderer) -> None:
    figures = figures_of_the_controller()
    expressions = alerts(renderer)

    for alert in ALERTS:
        [asked] = re.findall(r"(trainshed_\w+)\{ ?namespace=", expressions[alert])
        assert asked in figures, alert
        assert 'pod=~"trainshed-controller-.*"' in expressions[alert]
