"""What Prometheus is told to read, and when somebody is woken."""

import re
from pathlib import Path

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


def test_alerts_on_the_controller_ask_for_figures_that_it_has(renderer: Renderer) -> None:
    said = generate_latest(Metrics(Cache(Settings())).registry).decode()
    figures = set(re.findall(r"^# TYPE (\w+)", said, re.MULTILINE))
    expressions = alerts(renderer)

    for alert in ALERTS:
        [asked] = re.findall(r"(trainshed_\w+)\{ ?namespace=", expressions[alert])
        assert asked in figures, alert
        assert 'pod=~"trainshed-controller-.*"' in expressions[alert]
