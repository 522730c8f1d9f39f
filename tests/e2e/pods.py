"""Pods for tests of the cluster itself."""

import json
from collections.abc import Mapping, Sequence

from hack.cluster import node


def make_pod(
    name: str,
    *,
    image: str = node.PAUSE_IMAGE,
    command: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    **spec: object,
) -> str:
    """Return a Pod of one container as JSON, as `restricted` wants it; `spec` adds to it."""
    container = {
        "name": "main",
        "image": image,
        "command": [*command],
        "imagePullPolicy": "Never",
        "resources": {"limits": spec.pop("limits", {})},
        "volumeMounts": spec.pop("mounts", []),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }
    return json.dumps(pod)
