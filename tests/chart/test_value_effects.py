"""Every value changes what is rendered."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from pydantic import JsonValue

from hack.chart.helm import CHART
from hack.chart.values import read_values
from tests.chart.rendering import Renderer

DIGEST = "sha256:" + "a" * 64
# KubeRay's chart renders its own values; tests/chart has an empty one in its place.
OF_KUBERAY = "kuberay-operator."


@dataclass(frozen=True)
class Batch:
    """Values that are rendered together.

    Args:
        needs: values without which the others have no effect, as YAML.
        shows: for each value what it is set to, as YAML, and a text that only this makes appear.
    """

    shows: dict[str, tuple[str, str]]
    needs: str = "{}"


def as_text(path: str, word: str) -> tuple[str, tuple[str, str]]:
    """Return a value that appears as it is."""
    return path, (word, word)


def pod(path: str, prefix: str) -> dict[str, tuple[str, str]]:
    """Return the values of a Ray Pod below `path`."""
    return {
        f"{path}.nodeSelector": (f"{{{prefix}-node: x}}", f"{prefix}-node: x"),
        f"{path}.tolerations": (f"[{{key: {prefix}-taint}}]", f"key: {prefix}-taint"),
        f"{path}.affinity": (f"{{nodeAffinity: {{x: {prefix}-near}}}}", f"x: {prefix}-near"),
        **dict([as_text(f"{path}.priorityClassName", f"{prefix}-priority")]),
        f"{path}.annotations": (f"{{{prefix}-note: x}}", f"{prefix}-note: x"),
        **dict([as_text(f"{path}.schedulerName", f"{prefix}-scheduler")]),
        f"{path}.topologySpreadConstraints": (
            f"[{{topologyKey: {prefix}-zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}}]",
            f"topologyKey: {prefix}-zone",
        ),
        f"{path}.labels": (f"{{{prefix}-label: x}}", f"{prefix}-label: x"),
        f"{path}.volumes": (
            f"[{{name: {prefix}-volume, emptyDir: {{}}}}]",
            f"name: {prefix}-volume",
        ),
        f"{path}.volumeMounts": (
            f"[{{name: {prefix}-volume, mountPath: /{prefix}-mount}}]",
            f"mountPath: /{prefix}-mount",
        ),
        f"{path}.initContainers": (f"[{{name: {prefix}-first, image: a/b:1}}]", f"{prefix}-first"),
        f"{path}.sidecars": (f"[{{name: {prefix}-beside, image: a/b:1}}]", f"{prefix}-beside"),
        f"{path}.rayStartParams": (f"{{{prefix}-start: x}}", f"{prefix}-start: x"),
    }


BATCHES = {
    "names and images": Batch(
        {
            "nameOverride": ("other-name", "app.kubernetes.io/name: other-name"),
            "fullnameOverride": ("other-full", "name: other-full"),
            "global.imageRegistry": ("mirror.example", "image: mirror.example/team/app:1.2"),
            "image.repository": ("team/app", "team/app:1.2"),
            "image.tag": ("'1.2'", "team/app:1.2"),
            "image.pullPolicy": ("Always", "imagePullPolicy: Always"),
            "imagePullSecrets": ("[{name: pull-secret}]", "name: pull-secret"),
            "controller.image.repository": ("team/controller", "team/controller:1.3"),
            "controller.image.tag": ("'1.3'", "team/controller:1.3"),
            "controller.image.pullPolicy": ("Never", "imagePullPolicy: Never"),
        },
        "kuberay-operator: {enabled: false}",
    ),
    "registries and digests": Batch(
        {
            "image.registry": ("one.example", "one.example/trainshed/app@sha256:aaa"),
            "image.digest": (DIGEST, f"trainshed/app@{DIGEST}"),
            "controller.image.registry": ("two.example", "two.example/trainshed/controller"),
            "controller.image.digest": (DIGEST, f"trainshed/controller@{DIGEST}"),
            "groupDefaults.image": ("{repository: three/app}", "one.example/three/app"),
        }
    ),
    "Pods": Batch(
        {
            "ray.version": ("2.61.0", "rayVersion: 2.61.0"),
            "ray.tokenSecret": ("own-token", "own-token"),
            "ray.openFiles": ("12345", "12345"),
            "ray.upgradeStrategy": ("Recreate", 'upgradeStrategy:\n    type: "Recreate"'),
            "ray.env": ("{OWN_VARIABLE: x}", "name: OWN_VARIABLE"),
            "ray.envFrom": ("[{secretRef: {name: own-secret}}]", "name: own-secret"),
            "serviceAccount.annotations": ("{account-note: x}", "account-note: x"),
            "podLabels": ("{pod-label: x}", "pod-label: x"),
            "podAnnotations": ("{pod-note: x}", "pod-note: x"),
            "podSecurityContext.runAsUser": ("1001", "runAsUser: 1001"),
            "podSecurityContext.runAsGroup": ("1002", "runAsGroup: 1002"),
            "podSecurityContext.fsGroup": ("1003", "fsGroup: 1003"),
            "podSecurityContext.supplementalGroups": ("[1004]", "- 1004"),
            **pod("head", "head"),
            "head.resources.requests": ("{cpu: 1.25, memory: 3Gi}", "cpu: 1.25"),
            "head.resources.limits": ("{cpu: 7, memory: 17Gi}", "memory: 17Gi"),
            "head.terminationGracePeriodSeconds": ("61", "terminationGracePeriodSeconds: 61"),
            **pod("groupDefaults", "worker"),
            "groupDefaults.replicas": ("3", "replicas: 3"),
            "groupDefaults.minReplicas": ("2", "minReplicas: 2"),
            "groupDefaults.maxReplicas": ("13", "maxReplicas: 13"),
            "groupDefaults.gpus": ("5", 'example.com/gpu: "5"'),
            "groupDefaults.gpuResource": ("example.com/gpu", "example.com/gpu"),
            "groupDefaults.resources.requests": ("{cpu: 1.75, memory: 5Gi}", "cpu: 1.75"),
            "groupDefaults.resources.limits": ("{cpu: 9, memory: 19Gi}", "memory: 19Gi"),
            "groupDefaults.idleSeconds": ("77", "idleTimeoutSeconds: 77"),
            "groupDefaults.runtimeClassName": ("own-runtime", "runtimeClassName: own-runtime"),
            "groupDefaults.env": ("{OF_WORKERS: x}", "name: OF_WORKERS"),
            "groupDefaults.terminationGracePeriodSeconds": (
                "91",
                "terminationGracePeriodSeconds: 91",
            ),
            "groups.gpu.tolerations": ("[{key: gpu-taint}]", "key: gpu-taint"),
            "groups.cpu": ("{nodeSelector: {cpu-node: x}}", "cpu-node: x"),
            "scratch.tmp": ("51Gi", "sizeLimit: 51Gi"),
            "scratch.home": ("11Gi", "sizeLimit: 11Gi"),
            "autoscaling.enabled": ("true", "enableInTreeAutoscaling: true"),
            "autoscaling.idleSeconds": ("301", "idleTimeoutSeconds: 301"),
            "autoscaling.upscaling": ("Conservative", "upscalingMode: Conservative"),
            "autoscaling.resources.requests.cpu": ("201m", "cpu: 201m"),
            "autoscaling.resources.requests.memory": ("513Mi", "memory: 513Mi"),
            "autoscaling.resources.limits.cpu": ("501m", "cpu: 501m"),
            "autoscaling.resources.limits.memory": ("1025Mi", "memory: 1025Mi"),
        }
    ),
    "presets and switches": Batch(
        {
            "preset": ("laptop", "ReadWriteOnce"),
            "ray.tls": ("true", "tlsOptions:"),
            "groups.gpu.enabled": ("true", "groupName: gpu"),
        },
        "kuberay-operator: {featureGates: [{name: RayClusterMTLS, enabled: true}]}\n"
        "groups: {gpu: {enabled: false}}",
    ),
    "dashboard, Redis and monitoring": Batch(
        {
            "dashboard.proxyNamespace": ("proxy-space", "proxy-space"),
            "dashboard.serviceAnnotations": ("{service-note: x}", "service-note: x"),
            "dashboard.ingress.enabled": ("true", "kind: Ingress"),
            "dashboard.ingress.className": ("own-class", "own-class"),
            "dashboard.ingress.host": ("ray.example.com", "ray.example.com"),
            "dashboard.ingress.tlsSecret": ("ingress-tls", "ingress-tls"),
            "dashboard.ingress.annotations": ("{ingress-note: x}", "ingress-note: x"),
            "dashboard.httpRoute.enabled": ("true", "kind: HTTPRoute"),
            "dashboard.httpRoute.parentRefs": ("[{name: own-gateway}]", "name: own-gateway"),
            "dashboard.httpRoute.hostnames": ("[route.example.com]", "route.example.com"),
            "dashboard.httpRoute.annotations": ("{route-note: x}", "route-note: x"),
            "gcsFaultTolerance.redisAddress": ("redis.example:6399", "redis.example:6399"),
            "gcsFaultTolerance.passwordSecret": ("redis-password", "redis-password"),
            "gcsFaultTolerance.to": ("[{ipBlock: {cidr: 10.9.8.0/24}}]", "cidr: 10.9.8.0/24"),
            "monitoring.labels": ("{monitor-label: x}", "monitor-label: x"),
            "monitoring.podMonitors.enabled": ("true", "kind: PodMonitor"),
            "monitoring.podMonitors.interval": ("31s", "31s"),
            "monitoring.prometheusRule.enabled": ("true", "kind: PrometheusRule"),
            "monitoring.dashboard.enabled": ("true", "schemaVersion"),
            "monitoring.dashboard.labels": ("{own_dashboard: x}", "own_dashboard: x"),
        }
    ),
    "volume": Batch(
        {
            "storage.mountPath": ("/mnt/own", "mountPath: /mnt/own"),
            "storage.claim.name": ("own-claim", "claimName: own-claim"),
            "storage.claim.size": ("123Gi", "123Gi"),
            "storage.claim.accessModes": ("[ReadWriteOncePod]", "ReadWriteOncePod"),
            "storage.claim.storageClass": ("own-files", "own-files"),
        }
    ),
    "existing claim": Batch({"storage.existingClaim": ("old-claim", "claimName: old-claim")}),
    "bucket": Batch(
        {
            "storage.url": ("s3://own-bucket/runs", "s3://own-bucket/runs"),
            "storage.endpoint": ("http://10.7.7.7:9123", "http://10.7.7.7:9123"),
            "storage.allowHttp": ("true", "name: AWS_ALLOW_HTTP"),
            "storage.region": ("own-region", "own-region"),
            "storage.virtualHosted": ("true", "name: AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
            "storage.credentialsSecret": ("bucket-keys", "name: bucket-keys"),
            "storage.caBundle.secret": ("ca-secret", "ca-secret"),
            "storage.caBundle.key": ("own.crt", "own.crt"),
        }
    ),
    "bucket with an identity": Batch(
        {
            "storage.identity": ("node", "cidr: 169.254.169.254/32"),
            "storage.caBundle.configMap": ("ca-map", "name: ca-map"),
            "networkPolicy.storage.to": ("[{ipBlock: {cidr: 10.6.6.0/24}}]", "cidr: 10.6.6.0/24"),
            "networkPolicy.storage.ports": ("[9321]", "port: 9321"),
        },
        "storage: {url: s3://runs, region: eu-x, identity: irsa}\n"
        "serviceAccount: {annotations: {eks.amazonaws.com/role-arn: x}}",
    ),
    "policies": Batch(
        {
            "networkPolicy.dns": ("[{ipBlock: {cidr: 10.5.5.0/24}}]", "cidr: 10.5.5.0/24"),
            "networkPolicy.dnsPorts": ("[5353]", "port: 5353"),
            "networkPolicy.egress": ("[{to: [{ipBlock: {cidr: 10.4.4.0/24}}]}]", "10.4.4.0/24"),
            "networkPolicy.apiServerCIDRs": ("[10.3.3.3/32]", "10.3.3.3/32"),
            "networkPolicy.apiServerPorts": ("[7443]", "port: 7443"),
            "networkPolicy.operatorNamespace": ("own-operators", "own-operators"),
            "networkPolicy.prometheusNamespace": ("own-metrics", "own-metrics"),
        },
        "kuberay-operator: {enabled: false}",
    ),
    "controller": Batch(
        {
            "controller.sharedClusters": ("[other-cluster]", "other-cluster"),
            "controller.uninstallSeconds": ("241", "241"),
            "controller.classes": (
                "{own-class: {headGroupSpec: {template: {spec: {hostNetwork: true}}}}}",
                "own-class:",
            ),
            "controller.trustedClasses": ("[own-class]", "hostNetwork: true"),
            "controller.classPermissions": (
                "{default: {images: [allowed.example/team]}}",
                "allowed.example/team",
            ),
            "controller.classImages": ("{boosted: {tag: 9.9-boosted}}", "9.9-boosted"),
            "controller.resources.requests.cpu": ("101m", "cpu: 101m"),
            "controller.resources.requests.memory": ("257Mi", "memory: 257Mi"),
            "controller.resources.limits.cpu": ("1001m", "cpu: 1001m"),
            "controller.resources.limits.memory": ("511Mi", "memory: 511Mi"),
            "controller.replicas": ("2", "kind: PodDisruptionBudget"),
            "controller.webhook.secretName": ("own-webhook", "own-webhook"),
            "controller.webhook.format": ("slack", '"slack"'),
            "controller.webhook.conditions": ("[Complete, Suspended]", "Complete,Suspended"),
            "controller.webhook.port": ("8443", "port: 8443"),
            "controller.priorityClassName": ("own-priority", "own-priority"),
            "controller.nodeSelector": ("{controller-node: x}", "controller-node: x"),
            "controller.tolerations": ("[{key: controller-taint}]", "key: controller-taint"),
        }
    ),
    "what is left out": Batch(
        {
            "rbac.create": ("true", "kind: RoleBinding"),
            "groupDefaults.enabled": ("true", "groupName: extra"),
            "storage.digits": ("true", "app.kubernetes.io/component: digits"),
            "networkPolicy.enabled": ("true", "kind: NetworkPolicy"),
            "crds.install": ("true", "kind: CustomResourceDefinition"),
            "controller.enabled": ("true", "kind: Deployment"),
        },
        "rbac: {create: false}\ngroups: {gpu: {enabled: true}, extra: {}}\n"
        "groupDefaults: {enabled: false}\nstorage: {digits: false}\n"
        "networkPolicy: {enabled: false}\ncrds: {install: false}\ncontroller: {enabled: false}",
    ),
}


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_values_change_what_is_rendered(renderer: Renderer, tmp_path: Path, batch: Batch) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(batch.needs)
    changed = tmp_path / "changed.yaml"
    values: dict[str, JsonValue] = yaml.safe_load(batch.needs)
    for path, (value, _) in batch.shows.items():
        set_value(values, path, yaml.safe_load(value))
    changed.write_text(yaml.safe_dump(values))

    before, after = renderer.render_text(base), renderer.render_text(changed)

    without_effect = [
        path for path, (_, text) in batch.shows.items() if text in before or text not in after
    ]
    assert without_effect == []


def test_every_value_is_among_them() -> None:
    shown = {path for batch in BATCHES.values() for path in batch.shows}
    values = {value.path for value in read_values(CHART / "values.yaml")}

    assert sorted(path for path in values - shown if not path.startswith(OF_KUBERAY)) == []
    assert shown - values <= {"groups.gpu.enabled"}


def set_value(values: dict[str, JsonValue], path: str, value: JsonValue) -> None:
    """Set a value at a path of keys, separated by dots."""
    *parents, name = path.split(".")
    inner: JsonValue = values
    for parent in parents:
        assert isinstance(inner, dict)
        inner = inner.setdefault(parent, {})
    assert isinstance(inner, dict)
    inner[name] = value
