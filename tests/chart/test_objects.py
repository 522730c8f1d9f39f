"""Which objects each of the complete examples in charts/trainshed/ci renders."""

import subprocess
from collections import Counter

import pytest

from tests.chart.rendering import VALUES_FILES, Renderer, name_of, of_kind, rows, table, text

# What the values as they are render; each example says only in what it differs.
DEFAULT = {
    "RayCluster": 1,
    "ServiceAccount": 4,  # of Ray, the controller, the hook before an uninstall, `helm test`
    "PersistentVolumeClaim": 1,
    "Job": 2,  # the digits, the hook
    "NetworkPolicy": 9,
    "CustomResourceDefinition": 1,
    "ClusterRole": 2,
    "Role": 4,
    "RoleBinding": 4,
    "Lease": 1,
    "Deployment": 1,
    "Service": 1,
    "Secret": 1,
    "ConfigMap": 2,  # classes of clusters, whose controller serves the namespace
    "Pod": 1,  # of `helm test`
}
WANT: dict[str, dict[str, int]] = {
    "gpu-values.yaml": {},
    "laptop-values.yaml": {},
    "cloud-values.yaml": {},
    "autoscaling-values.yaml": {},
    "s3-values.yaml": {"PersistentVolumeClaim": 0, "NetworkPolicy": 10},
    "minio-values.yaml": {"PersistentVolumeClaim": 0, "NetworkPolicy": 10},
    "gcs-values.yaml": {"PersistentVolumeClaim": 0, "NetworkPolicy": 10},
    "azure-values.yaml": {"PersistentVolumeClaim": 0, "NetworkPolicy": 10},
    "nfs-values.yaml": {"PersistentVolumeClaim": 0},
    "airgapped-values.yaml": {},
    "hardened-values.yaml": {"Job": 1},
    "external-kuberay-values.yaml": {},
    "two-gpu-groups-values.yaml": {},
    "monitoring-values.yaml": {"PodMonitor": 3, "PrometheusRule": 1, "ConfigMap": 3},
    "open-network-values.yaml": {"NetworkPolicy": 0},
    "rdma-values.yaml": {},
    "exposed-values.yaml": {"Ingress": 1},
}
GROUPS = {
    "two-gpu-groups-values.yaml": ["a100", "cpu", "slice"],
    "rdma-values.yaml": ["cpu", "gpu", "shared"],
}


def test_every_example_is_in_the_table() -> None:
    assert set(WANT) == set(VALUES_FILES)


@pytest.mark.parametrize("name", VALUES_FILES)
def test_example_renders_so_many_objects_of_each_kind(renderer: Renderer, name: str) -> None:
    have = Counter(str(thing["kind"]) for thing in renderer.render(VALUES_FILES[name]))

    assert have == Counter(DEFAULT | WANT[name])


@pytest.mark.parametrize("name", VALUES_FILES)
def test_example_renders_the_same_again(renderer: Renderer, name: str) -> None:
    again = Renderer(renderer.helm, renderer.chart).render(VALUES_FILES[name])

    assert again == renderer.render(VALUES_FILES[name])


@pytest.mark.parametrize("name", VALUES_FILES)
def test_every_object_has_its_namespace_its_labels_and_a_name_of_its_own(
    renderer: Renderer, name: str
) -> None:
    objects = renderer.render(VALUES_FILES[name])

    for thing in objects:
        if thing["kind"] == "CustomResourceDefinition":
            continue  # it belongs to no release: it stays
        labels = table(thing, "metadata", "labels")
        if thing["kind"] != "ClusterRole":
            assert text(thing, "metadata", "namespace") == "trainshed", name_of(thing)
        assert labels["app.kubernetes.io/part-of"] == "trainshed", name_of(thing)
        assert labels["app.kubernetes.io/instance"] == "trainshed", name_of(thing)
        assert labels["app.kubernetes.io/version"], name_of(thing)
    assert len({name_of(thing) for thing in objects}) == len(objects)


@pytest.mark.parametrize("name", VALUES_FILES)
def test_each_group_says_its_name_to_kubernetes_and_to_ray(renderer: Renderer, name: str) -> None:
    [cluster] = of_kind(renderer.render(VALUES_FILES[name]), "RayCluster")
    groups = rows(cluster, "spec", "workerGroupSpecs")

    assert [group["groupName"] for group in groups] == GROUPS.get(name, ["cpu", "gpu"])
    for group in groups:
        # KubeRay gives these labels to the Ray node and to its Pod.
        assert group["labels"] == {"trainshed.dev/group": group["groupName"]}


def test_lint_finds_nothing(renderer: Renderer) -> None:
    chart = str(renderer.chart)
    done = subprocess.run(
        [renderer.helm, "lint", "--strict", "--quiet", "--kube-version=1.35.4", chart],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr


def test_no_secret_is_invented(renderer: Renderer) -> None:
    for path in VALUES_FILES.values():
        assert all(not thing.get("data") for thing in of_kind(renderer.render(path), "Secret"))
