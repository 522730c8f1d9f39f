"""manifests/install.yaml: the chart for one node, for people without Helm."""

import tempfile
from pathlib import Path

from hack.chart.helm import prepare_chart, render_chart
from hack.tools.finder import find

NAMESPACE = "trainshed"
HEADER = """\
# Trainshed without Helm, for one node without GPUs: charts/trainshed with preset=laptop. Made by `make generate`.
#
# KubeRay comes first; its operator then runs in the namespace `default`:
#   kubectl apply --server-side -k "github.com/ray-project/kuberay/ray-operator/config/default?ref=v1.7.0"
# then this file:
#   kubectl apply -f manifests/install.yaml
#   kubectl -n trainshed wait raycluster/trainshed --for=jsonpath='{.status.state}'=ready --timeout=15m
#
# Never `kubectl delete -f` this file: the namespace, the volume with every run on it, and the kind TrainingRun with all
# TrainingRuns of the cluster would go, and no run would be stopped first. docs/install.md says what to delete instead.
#
# To change a value use the chart: docs/install.md.
---
apiVersion: v1
kind: Namespace
metadata:
  name: trainshed
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""  # noqa: E501


def render_manifest() -> str:
    """Return the text of manifests/install.yaml."""
    with tempfile.TemporaryDirectory() as folder:
        chart = prepare_chart(Path(folder))
        objects = render_chart(
            str(find("helm")),
            chart,
            "--no-hooks",
            "--set=kuberay-operator.enabled=false,preset=laptop",
            namespace=NAMESPACE,
        )
    return HEADER + objects
