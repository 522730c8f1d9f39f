"""Who may talk to whom by the rendered policies; whether a network enforces them is not seen."""

from dataclasses import dataclass, replace

import pytest

from tests.chart.network import Endpoint, is_allowed
from tests.chart.pods import expand_pods
from tests.chart.rendering import VALUES_FILES, Object, Renderer, of_kind, table, text
from tests.controller.builders_view import SETTINGS, make_view
from trainshed_controller.render import render_policy


def ours(component: str) -> Endpoint:
    return Endpoint(
        (
            ("app.kubernetes.io/part-of", "trainshed"),
            ("app.kubernetes.io/instance", "trainshed"),
            ("app.kubernetes.io/component", component),
        )
    )


def ray(node_type: str, cluster: str = "trainshed") -> Endpoint:
    labels = (
        ("ray.io/is-ray-node", "yes"),
        ("ray.io/cluster", cluster),
        ("ray.io/node-type", node_type),
    )
    return Endpoint(ours("ray").labels + labels)


def of_run(name: str, node_type: str) -> Endpoint:
    """A Pod of a cluster that a run has for itself."""
    return Endpoint((*ray(node_type, f"{name}-1-abcde").labels, ("trainshed.dev/run", name)))


def policy_of_run(name: str) -> Object:
    """What the controller makes for a run, in the namespace of the release."""
    view = replace(make_view(cluster={"dedicated": {}}), name=name, namespace="trainshed")
    policy = render_policy(view, replace(SETTINGS, isolates_clusters=True))
    assert policy
    return policy


def elsewhere(namespace: str, **labels: str) -> Endpoint:
    return Endpoint(tuple(labels.items()), namespace)


OPERATOR = (("app.kubernetes.io/component", "kuberay-operator"),)
DNS = Endpoint((("k8s-app", "kube-dns"),), "kube-system")
THEIRS = Endpoint((("ray.io/cluster", "theirs"), ("ray.io/node-type", "worker")))
CLOUD = Endpoint(address="93.184.216.34")
METADATA = Endpoint(address="169.254.169.254")
STRANGER = Endpoint((("app", "web"),))


@dataclass(frozen=True)
class Case:
    source: Endpoint
    target: Endpoint
    port: int
    want: bool
    values: str = "gpu-values.yaml"


CASES = {
    "a worker reaches the head's store": Case(ray("worker"), ray("head"), 6379, True),
    "workers reach each other on any port": Case(ray("worker"), ray("worker"), 34567, True),
    "the head reaches workers": Case(ray("head"), ray("worker"), 10002, True),
    "another Ray cluster does not": Case(THEIRS, ray("head"), 6379, False),
    "a stranger beside it reaches no dashboard": Case(STRANGER, ray("head"), 8265, False),
    "a stranger beside it reaches no Ray client": Case(STRANGER, ray("head"), 10001, False),
    "a stranger elsewhere reaches no worker": Case(elsewhere("x"), ray("worker"), 8080, False),
    "the operator submits jobs": Case(Endpoint(OPERATOR), ray("head"), 8265, True),
    "the operator has no other port": Case(Endpoint(OPERATOR), ray("head"), 6379, False),
    "an operator elsewhere is a stranger": Case(
        Endpoint(OPERATOR, "default"), ray("head"), 8265, False
    ),
    "the operator of the whole cluster submits jobs": Case(
        Endpoint(OPERATOR, "kuberay-system"),
        ray("head"),
        8265,
        True,
        "external-kuberay-values.yaml",
    ),
    "the operator of another namespace is a stranger then": Case(
        Endpoint(OPERATOR, "default"), ray("head"), 8265, False, "external-kuberay-values.yaml"
    ),
    "the controller asks for jobs": Case(ours("controller"), ray("head"), 8265, True),
    "the controller asks nothing else of Ray": Case(ours("controller"), ray("head"), 6379, False),
    "the controller asks no worker": Case(ours("controller"), ray("worker"), 8265, False),
    "a driver says how it does": Case(ray("head"), ours("controller"), 8081, True),
    "a stranger tells the controller nothing": Case(STRANGER, ours("controller"), 8081, False),
    "the controller reaches the API server": Case(
        ours("controller"), Endpoint(address="10.0.0.10"), 6443, True
    ),
    "the hook of an uninstall reaches the API server": Case(
        ours("uninstall"), Endpoint(address="10.0.0.10"), 6443, True
    ),
    "the own cluster of a run that an earlier controller began talks to itself": Case(
        ray("worker", "digits-1-abcde"), ray("head", "digits-1-abcde"), 6379, True
    ),
    "a cluster of an earlier controller reaches no run's own": Case(
        ray("worker", "digits-1-abcde"), of_run("mine", "head"), 6379, False
    ),
    "a run's own cluster reaches no other run's": Case(
        of_run("theirs", "worker"), of_run("mine", "head"), 6379, False
    ),
    "nor its dashboard": Case(of_run("theirs", "head"), of_run("mine", "head"), 8265, False),
    "workers of a run's own cluster reach its head": Case(
        of_run("mine", "worker"), of_run("mine", "head"), 6379, True
    ),
    "and each other on any port": Case(
        of_run("mine", "worker"), of_run("mine", "worker"), 34567, True
    ),
    "the operator submits jobs to a run's own cluster": Case(
        Endpoint(OPERATOR), of_run("mine", "head"), 8265, True
    ),
    "and not to the shared one": Case(ray("worker", "digits-1-abcde"), ray("head"), 6379, False),
    "the operator submits jobs to it, too": Case(
        Endpoint(OPERATOR), ray("head", "digits-1-abcde"), 8265, True
    ),
    "the test of the release asks for nodes": Case(ours("test"), ray("head"), 8265, True),
    "the test of the release asks nothing else": Case(ours("test"), ray("head"), 10001, False),
    "the test of the release asks no worker": Case(ours("test"), ray("worker"), 8265, False),
    "the test of the release looks at Pods": Case(
        ours("test"), Endpoint(address="10.0.0.10"), 6443, True
    ),
    "Prometheus reads metrics of a run's own cluster": Case(
        elsewhere("monitoring"), ray("worker", "digits-1-abcde"), 8080, True
    ),
    "Prometheus opens no dashboard there": Case(
        elsewhere("monitoring"), ray("head", "digits-1-abcde"), 8265, False
    ),
    "the proxy of the dashboard reaches it": Case(
        elsewhere("ingress-nginx"), ray("head"), 8265, True, "exposed-values.yaml"
    ),
    "and no other port": Case(
        elsewhere("ingress-nginx"), ray("head"), 6379, False, "exposed-values.yaml"
    ),
    "nor a run's own cluster": Case(
        elsewhere("ingress-nginx"), of_run("mine", "head"), 8265, False, "exposed-values.yaml"
    ),
    "Ray finds names at another port": Case(
        ray("worker"), elsewhere("openshift-dns"), 5353, True, "rdma-values.yaml"
    ),
    "Ray finds names": Case(ray("worker"), DNS, 53, True),
    "Ray asks names of nobody else": Case(ray("worker"), elsewhere("kube-system"), 53, False),
    "Prometheus reads a worker's metrics": Case(elsewhere("monitoring"), ray("worker"), 8080, True),
    "Prometheus reads the head's metrics": Case(elsewhere("monitoring"), ray("head"), 44227, True),
    "Prometheus opens no dashboard": Case(elsewhere("monitoring"), ray("head"), 8265, False),
    "Prometheus may live elsewhere": Case(
        elsewhere("observability"), ray("head"), 8080, True, "monitoring-values.yaml"
    ),
    "nobody reads metrics of a hardened release": Case(
        elsewhere("monitoring"), ray("head"), 8080, False, "hardened-values.yaml"
    ),
    "the job with the digits talks to nobody": Case(ours("digits"), DNS, 53, False),
    "Ray does not reach the internet": Case(
        ray("worker"), Endpoint(address="93.184.216.34"), 443, False
    ),
    "Ray reaches its object store": Case(
        ray("worker"), Endpoint(address="93.184.216.34"), 443, True, "s3-values.yaml"
    ),
    "Ray does not reach the metadata of its node": Case(
        ray("worker"), Endpoint(address="169.254.169.254"), 443, False, "s3-values.yaml"
    ),
    "Ray reaches an object store beside it": Case(
        ray("head"), elsewhere("minio"), 9000, True, "minio-values.yaml"
    ),
    "the head does not reach the API server": Case(
        ray("head"), Endpoint(address="10.0.0.10"), 6443, False
    ),
    "the head that scales reaches the API server": Case(
        ray("head"), Endpoint(address="10.0.0.10"), 6443, True, "autoscaling-values.yaml"
    ),
    "and no other address": Case(
        ray("head"), Endpoint(address="10.0.0.11"), 6443, False, "autoscaling-values.yaml"
    ),
    "its workers do not": Case(
        ray("worker"), Endpoint(address="10.0.0.10"), 6443, False, "autoscaling-values.yaml"
    ),
    "Ray reaches no other port of the internet": Case(
        ray("worker"), CLOUD, 80, False, "s3-values.yaml"
    ),
    "a run's own cluster reaches the store, too": Case(
        ray("head", "digits-1-abcde"), CLOUD, 443, True, "s3-values.yaml"
    ),
    "the job with the digits reaches the store": Case(
        ours("digits"), CLOUD, 443, True, "s3-values.yaml"
    ),
    "and finds its name": Case(ours("digits"), DNS, 53, True, "s3-values.yaml"),
    "who goes to the store does not ask the node who it is": Case(
        ray("worker"), METADATA, 80, False, "s3-values.yaml"
    ),
    "nor by the store's port": Case(ray("worker"), METADATA, 443, False, "s3-values.yaml"),
    "nor by its other address": Case(
        ray("worker"), Endpoint(address="fd00:ec2::254"), 443, False, "s3-values.yaml"
    ),
    "an object store beside it has one port": Case(
        ray("worker"), elsewhere("minio"), 9001, False, "minio-values.yaml"
    ),
    "the test of the release has no business there": Case(
        ours("test"), elsewhere("minio"), 9000, False, "minio-values.yaml"
    ),
    "the digits go there, too": Case(
        ours("digits"), elsewhere("minio"), 9000, True, "minio-values.yaml"
    ),
    "the controller has no business there": Case(
        ours("controller"), elsewhere("minio"), 9000, False, "minio-values.yaml"
    ),
    "and from there nothing goes to the internet": Case(
        ray("worker"), CLOUD, 443, False, "minio-values.yaml"
    ),
    "GKE is asked who a Pod is": Case(ray("worker"), METADATA, 80, True, "gcs-values.yaml"),
    "without policies all is open": Case(
        STRANGER, ray("head"), 10001, True, "open-network-values.yaml"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_traffic(renderer: Renderer, case: Case) -> None:
    own = [policy_of_run("mine"), policy_of_run("theirs")]
    objects = renderer.render(VALUES_FILES[case.values]) + own

    assert is_allowed(objects, case.source, case.target, case.port) is case.want


def test_every_pod_is_closed_by_default(renderer: Renderer) -> None:
    objects = renderer.render()
    [deny] = [
        policy
        for policy in of_kind(objects, "NetworkPolicy")
        if text(policy, "metadata", "name") == "trainshed-default-deny"
    ]
    selected = table(deny, "spec", "podSelector", "matchLabels").items()

    for pod in expand_pods(objects):
        assert selected <= table(pod, "metadata", "labels").items(), pod["metadata"]


def test_the_cluster_that_policies_mean_is_the_one_that_is_made(renderer: Renderer) -> None:
    objects = renderer.render(None, release="blue")
    [cluster] = of_kind(objects, "RayCluster")
    name = text(cluster, "metadata", "name")

    assert name == "blue-trainshed"
    assert is_allowed(objects, ray("worker", name), ray("head", name), 6379)
    assert not is_allowed(objects, ray("worker"), ray("head", name), 6379)
