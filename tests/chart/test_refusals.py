"""Wrong values are refused before anything reaches a cluster, by a message that names them."""

from pathlib import Path

import pytest
import yaml

from hack.chart.helm import HelmError
from tests.chart.refusals import Case, check_refused
from tests.chart.rendering import Renderer


def group(text: str) -> str:
    return f"groups: {{gpu: {{{text}}}}}"


def scaled(text: str) -> str:
    return f"autoscaling: {{enabled: true}}\ngroups: {{gpu: {{{text}}}}}"


CASES = {
    # by the schema: names and types
    "a value that does not exist": Case("replicas: 3", ("'replicas' not allowed",)),
    "a webhook of a release that had no port": Case(
        "controller: {webhook: {secretName: hook, port: null}}",
        ("/controller/webhook", "missing property 'port'"),
    ),
    "a slip of the pen in a group": Case(
        group("repilcas: 3"), ("/groups/gpu", "'repilcas' not allowed")
    ),
    "a group's image of today": Case(
        group("image: {tag: latest}"), ("groups.gpu.image.tag", "the image behind latest changes")
    ),
    "an Ingress without a host": Case(
        "dashboard: {proxyNamespace: x, ingress: {enabled: true}}",
        ("dashboard.ingress.host: got nothing",),
    ),
    "a route of no Gateway": Case(
        "dashboard: {proxyNamespace: x, httpRoute: {enabled: true}}",
        ("dashboard.httpRoute.parentRefs: got none",),
    ),
    "a proxy that the policies keep out": Case(
        "dashboard: {ingress: {enabled: true, host: ray.example.com}}",
        ("dashboard.proxyNamespace: got nothing", "NetworkPolicies close the dashboard"),
    ),
    "TLS between Ray's nodes without KubeRay's gate": Case(
        "ray: {tls: true}", ("ray.tls: got true", "RayClusterMTLS")
    ),
    "a Redis without a port": Case(
        "gcsFaultTolerance: {redisAddress: redis}", ("/gcsFaultTolerance/redisAddress",)
    ),
    "a password of no Redis": Case(
        "gcsFaultTolerance: {passwordSecret: redis}",
        ("gcsFaultTolerance.redisAddress: got nothing",),
    ),
    "a tag that is none": Case(
        "image: {tag: 'bad tag!'}", ("image.tag", '"bad tag!"', "letters, digits")
    ),
    "a repository with its registry's port and a tag": Case(
        "image: {repository: 'mirror.example:5000/team/app:1.2'}",
        ("image.repository", "team/app", "image.registry"),
    ),
    "a class's image of today": Case(
        "controller: {classImages: {xgboost: {tag: latest}}}",
        ("controller.classImages.xgboost.tag", "the image behind latest changes"),
    ),
    "a second default class": Case(
        "controller: {classImages: {default: {tag: x}}}",
        ("controller.classImages: got default", "the name of an existing class"),
    ),
    "GPUs in two places": Case(
        group("resources: {limits: {nvidia.com/gpu: 1}}"),
        ("groups.gpu.resources: got nvidia.com/gpu", "groups.gpu.gpus"),
    ),
    "GPUs among the requests": Case(
        group("resources: {requests: {nvidia.com/gpu: 1}}"),
        ("groups.gpu.resources: got nvidia.com/gpu",),
    ),
    "a mount over the runs": Case(
        group("volumeMounts: [{name: a, mountPath: /mnt/trainshed}]"),
        ("groups.gpu.volumeMounts: got /mnt/trainshed",),
    ),
    "a label of KubeRay's": Case(
        "head: {labels: {ray.io/cluster: other}}", ("head.labels: got ray.io/cluster",)
    ),
    "a resource without a proper name": Case(
        group("resources: {limits: {'rdma hca': 1}}"),
        ("/groups/gpu/resources/limits", "'rdma hca' not allowed"),
    ),
    "fewer than no GPUs": Case(group("gpus: -1"), ("/groups/gpu/gpus", "minimum: got -1, want 0")),
    "an unknown pull policy": Case(
        "image: {pullPolicy: Sometimes}", ("/image/pullPolicy", "'Always', 'IfNotPresent', 'Never'")
    ),
    "pods that run as root": Case(
        "podSecurityContext: {runAsUser: 0}", ("/podSecurityContext/runAsUser", "got 0, want 1")
    ),
    "no time to end": Case(
        group("terminationGracePeriodSeconds: 5"),
        ("/groups/gpu/terminationGracePeriodSeconds", "got 5, want 30"),
    ),
    # by validate.yaml: what has to fit together
    "an image of every day": Case("image: {tag: latest}", ('image.tag: got "latest"', "version")),
    "a controller of every day": Case(
        "controller: {image: {tag: latest}}", ('controller.image.tag: got "latest"', "version")
    ),
    "a digest of the controller that is none": Case(
        "controller: {image: {digest: oops}}", ('controller.image.digest: got "oops"', "sha256:")
    ),
    "a mirror without KubeRay": Case(
        "global: {imageRegistry: mirror.example/all}",
        (
            "global.imageRegistry: got mirror.example/all",
            "such as mirror.example/all/kuberay/operator",
        ),
    ),
    "a class whose images are not of the mirror": Case(
        "global: {imageRegistry: mirror.example}\n"
        "kuberay-operator: {enabled: false}\n"
        "controller: {classes: {big: {headGroupSpec: {template: {spec: {containers: "
        "[{name: a, image: mirror.example/a:1}, {name: b, image: 'docker.io/b:1'}]}}}}}}",
        (
            "controller.classes.big has the image docker.io/b:1",
            "expected an image in that registry",
        ),
    ),
    "a parameter of Ray that KubeRay sets": Case(
        "groups: {gpu: {rayStartParams: {port: 1}}}", ("groups.gpu.rayStartParams: got port",)
    ),
    "a volume of a name that is taken": Case(
        "head: {volumes: [{name: tmp, emptyDir: {}}]}", ("head.volumes: got the name tmp",)
    ),
    "a folder of the node": Case(
        "head: {volumes: [{name: a, hostPath: {path: /}}]}", ("head.volumes: got hostPath in a",)
    ),
    "a mount over a folder of Ray": Case(
        "groups: {cpu: {volumeMounts: [{name: a, mountPath: /tmp/}]}}",
        ("groups.cpu.volumeMounts: got /tmp/",),
    ),
    "a container of a name that is taken": Case(
        "groups: {cpu: {sidecars: [{name: ray-worker, image: a/b:1}]}}",
        ("groups.cpu: got a container ray-worker",),
    ),
    "a class that uses its node's network": Case(
        "controller: {classes: {big: {headGroupSpec: {template: {spec: {hostNetwork: true}}}}}}",
        ("controller.classes.big: got hostNetwork", "controller.trustedClasses"),
    ),
    "a class that mounts its node's files": Case(
        "controller: {classes: {big: {headGroupSpec: {}, workerGroupSpecs: [{template: {spec: "
        "{volumes: [{name: a, hostPath: {path: /}}]}}}]}}}",
        ("controller.classes.big: got hostPath", "controller.trustedClasses"),
    ),
    "a class with a privileged container": Case(
        "controller: {classes: {big: {headGroupSpec: {template: {spec: {initContainers: "
        "[{name: a, securityContext: {privileged: true}}]}}}}}}",
        ("controller.classes.big: got privileged", "controller.trustedClasses"),
    ),
    "a class that is root": Case(
        "controller: {classes: {big: {headGroupSpec: {template: {spec: "
        "{securityContext: {runAsUser: 0}}}}}}}",
        ("controller.classes.big: got a user that is root",),
    ),
    "a class with capabilities": Case(
        "controller: {classes: {big: {headGroupSpec: {template: {spec: {containers: [{name: a, "
        "securityContext: null}, {name: b, securityContext: {capabilities: {add: [SYS_ADMIN]}}}"
        "]}}}}}}",
        ("controller.classes.big: got capabilities.add",),
    ),
    "a class with a port of its node": Case(
        "controller: {classes: {big: {headGroupSpec: {template: {spec: {containers: "
        "[{name: a, ports: [{containerPort: 1, hostPort: 1}]}]}}}}}}",
        ("controller.classes.big: got hostPort",),
    ),
    "trust in a class that is not there": Case(
        "controller: {classes: {big: {headGroupSpec: {}}}, trustedClasses: [bigger]}",
        ('controller.trustedClasses: got "bigger"', "controller.classes: big"),
    ),
    "permissions of a class that is not there": Case(
        "controller: {classPermissions: {bigger: {images: [registry.example.com/team]}}}",
        ('controller.classPermissions: got "bigger"', "expected one of: default"),
    ),
    "a permission of another kind": Case(
        "controller: {classPermissions: {default: {volumes: [a]}}}",
        ("/controller/classPermissions/default", "volumes"),
    ),
    "a sidecar whose image is not of the mirror": Case(
        "global: {imageRegistry: mirror.example}\n"
        "kuberay-operator: {enabled: false}\n"
        "groups: {cpu: {sidecars: [{name: a, image: 'docker.io/b:1'}]}}",
        ("groups.cpu.sidecars has the image docker.io/b:1", "expected an image in that registry"),
    ),
    "a digest cut off": Case("image: {digest: 'sha256:abc'}", ('image.digest: got "sha256:abc"',)),
    "a Ray that has no tokens": Case("ray: {version: 2.40.0}", ("ray.version: got 2.40.0",)),
    "a Ray of no version": Case("ray: {version: newest}", ('ray.version: got "newest"', "2.60.0")),
    "a long name": Case(
        "fullnameOverride: " + "x" * 48,
        ("of 48 characters; expected at most 47", "fullnameOverride"),
    ),
    "a long name of the release": Case(
        "nameOverride: ray", ("of 54 characters", "shorter release name"), release="r" * 50
    ),
    "a name that begins with a digit": Case(
        "fullnameOverride: 3d", ('"3d"', "beginning with a letter")
    ),
    "a group named like the head's": Case("groups: {head: {}}", ('groups: got the name "head"',)),
    "a group in capitals": Case(
        "groups: {GPU: {}}", ('groups: got the name "GPU"', "lowercase letters")
    ),
    "no group at all": Case(
        "groups: {gpu: {enabled: false}, cpu: {enabled: false}}", ("groups: got no enabled group",)
    ),
    "memory without its unit": Case(
        group("resources: {limits: {memory: 64}, requests: {memory: 64}}"),
        ("groups.gpu.resources.limits.memory: got 64", "unit"),
    ),
    "memory in a unit of its own": Case(
        group("resources: {limits: {memory: 16GB}}"),
        ('groups.gpu.resources.limits.memory: got "16GB"', "16Gi"),
    ),
    "a request above its limit": Case(
        group("resources: {requests: {cpu: 8}}"),
        ("groups.gpu.resources.requests.cpu: got 8; expected at most its limit 4",),
    ),
    "a head's request above its limit": Case(
        "head: {resources: {limits: {memory: 900Mi}}}",
        ("head.resources.requests.memory: got 8Gi; expected at most its limit 900Mi",),
    ),
    "more workers at least than at most": Case(
        scaled("minReplicas: 9"), ("groups.gpu.minReplicas: got 9; expected at most maxReplicas 4",)
    ),
    "more workers at the start than at most": Case(
        scaled("replicas: 9"), ("groups.gpu.replicas: got 9", "maxReplicas 4")
    ),
    "an environment that the chart sets": Case(
        "ray: {env: {TRAINSHED_HOME: /}}", ("ray.env: got TRAINSHED_HOME, which the chart",)
    ),
    "a token in the open": Case(
        group("env: {RAY_AUTH_TOKEN: x}"), ("groups.gpu.env: got RAY_AUTH_TOKEN",)
    ),
    "a key to a store in the open": Case(
        group("env: {AWS_SECRET_ACCESS_KEY: x}"),
        ("groups.gpu.env: got AWS_SECRET_ACCESS_KEY", "storage.credentialsSecret or ray.envFrom"),
    ),
    "an environment that no shell knows": Case(
        "ray: {env: {a-b: c}}", ('ray.env: got the name "a-b"', "underscores")
    ),
    "a mount over the home folder": Case(
        "storage: {mountPath: /home/ray}",
        ("storage.mountPath: got /home/ray; expected a path outside",),
    ),
    "a mount that is no path": Case(
        "storage: {mountPath: data}", ('storage.mountPath: got "data"',)
    ),
    "a namespace that is not the release's": Case(
        "controller: {watchNamespaces: [trainshed, other]}",
        ('controller.watchNamespaces: got "other"', "namespace of the release, trainshed"),
    ),
    "a claim of no size": Case(
        "storage: {claim: {size: big}}", ('storage.claim.size: got "big"', "quantity")
    ),
}
# What a live cluster offers, as `helm install` hears it.
LIVE = ("--api-versions=v1/Pod",)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_refused(renderer: Renderer, tmp_path: Path, case: Case) -> None:
    check_refused(renderer, tmp_path, case)


def test_kuberay_has_to_be_there_where_it_does_not_come_along(renderer: Renderer) -> None:
    off = "--set=kuberay-operator.enabled=false"

    with pytest.raises(HelmError, match=r"Install KubeRay 1\.7 first"):
        renderer.render_text(None, off, *LIVE)

    assert renderer.render_text(None, off, *LIVE, "--api-versions=ray.io/v1/RayCluster")


@pytest.mark.parametrize(
    ("switch", "kind"), [("podMonitors", "PodMonitor"), ("prometheusRule", "PrometheusRule")]
)
def test_monitoring_has_to_be_there(renderer: Renderer, switch: str, kind: str) -> None:
    on = f"--set=monitoring.{switch}.enabled=true"

    with pytest.raises(HelmError, match=f"this cluster has no {kind} kind"):
        renderer.render_text(None, on, *LIVE)

    assert renderer.render_text(None, on, *LIVE, f"--api-versions=monitoring.coreos.com/v1/{kind}")


def test_an_overlay_changes_adds_and_switches_off_groups(
    renderer: Renderer, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("groups: {gpu: {replicas: 0}, cpu: null, big: {gpus: 8, env: {A: 1}}}")

    [cluster] = [thing for thing in renderer.render(values) if thing["kind"] == "RayCluster"]

    groups = yaml.safe_load(yaml.safe_dump(cluster))["spec"]["workerGroupSpecs"]
    assert {group["groupName"]: group["replicas"] for group in groups} == {"gpu": 0, "big": 1}
    [big] = [group for group in groups if group["groupName"] == "big"]
    [container] = big["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {
        "cpu": "4",
        "memory": "8Gi",
        "nvidia.com/gpu": "8",
    }
    assert {"name": "A", "value": "1"} in container["env"]
