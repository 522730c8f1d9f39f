"""What Prometheus is told to read, and when somebody is woken."""

import re

from prometheus_client import generate_latest

from tests.chart.rendering import VALUES_FILES, Renderer, at, of_kind, rows, table, text
from trainshed_controller.cache import Cache
from trainshed_controller.metrics import Metrics
from trainshed_controller.model import Settings

MONITORING = VALUES_FILES["monitoring-values.yaml"]
ALERTS = {"TrainshedControllerDown", "TrainshedControllerRestarts", "TrainshedInternalErrors"}


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


def alerts(renderer: Renderer, *options: str) -> dict[str, str]:
    """Return the expression of each alert."""
    [rule] = of_kind(renderer.render(MONITORING, *options), "PrometheusRule")
    each = rows(at(rule, "spec", "groups", 0), "rules")
    return {text(row, "alert"): text(row, "expr") for row in each}


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
