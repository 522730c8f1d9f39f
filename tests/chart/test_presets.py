"""What `preset` chooses, and what a value that is set changes of it."""

import pytest

from hack.chart.helm import HelmError, render_chart
from tests.chart.pods import containers_of, expand_pods
from tests.chart.rendering import VALUES_FILES, Object, Renderer, at, of_kind, rows, table, text
from trainshed_api.quantity import parse_quantity

NAMED = (
    "--set=storage.url=gs://runs,storage.identity=gke",
    "--set=storage.existingClaim=team-nfs",
    "--set=storage.claim.storageClass=shared-files",
    "--set=storage.claim.accessModes={ReadWriteOnce}",
    "--set=preset=laptop",
)


def resources(objects: list[Object], group: str) -> Object:
    """Return the resources of the Ray container of the head or of a group."""
    [pod] = [
        pod
        for pod in expand_pods(objects)
        if at(pod, "metadata", "labels", "ray.io/group") == (group or "headgroup")
    ]
    return table(rows(pod, "spec", "containers")[0], "resources")


def claim(objects: list[Object]) -> tuple[object, object]:
    [found] = of_kind(objects, "PersistentVolumeClaim")
    return at(found, "spec", "accessModes"), at(found, "spec", "resources", "requests", "storage")


def test_a_laptop_has_what_its_preset_requests(renderer: Renderer) -> None:
    objects = renderer.render(VALUES_FILES["laptop-values.yaml"])
    requests = [
        table(container, "resources", "requests")
        for pod in expand_pods(objects)
        for container in containers_of(pod)
    ]

    assert sum(parse_quantity(text(each, "memory")) for each in requests) <= 5 * 2**30
    assert sum(parse_quantity(text(each, "cpu")) for each in requests) <= 2
    assert not [name for each in requests for name in each if "gpu" in name]
    assert claim(objects) == (["ReadWriteOnce"], "5Gi")


def test_a_cloud_is_the_same_cluster_without_gpus(renderer: Renderer) -> None:
    cloud = renderer.render(VALUES_FILES["cloud-values.yaml"])
    gpu = renderer.render(VALUES_FILES["gpu-values.yaml"])

    assert resources(cloud, "") == resources(gpu, "")
    assert resources(cloud, "cpu") == resources(gpu, "cpu") == resources(cloud, "gpu")
    assert table(resources(gpu, "gpu"), "limits")["nvidia.com/gpu"] == "1"
    assert claim(cloud) == claim(gpu) == (["ReadWriteMany"], "100Gi")


def test_values_that_are_set_win_over_the_preset(renderer: Renderer) -> None:
    objects = renderer.render(
        None,
        "--set=preset=gpu,groups.gpu.gpus=0,groups.cpu.resources.limits.memory=9Gi",
        "--set=groupDefaults.resources.limits.memory=17Gi,head.resources.limits.cpu=3",
        "--set=storage.claim.size=1Ti,groups.more.gpus=2",
    )

    assert resources(objects, "gpu")["limits"] == {"cpu": "4", "memory": "17Gi"}
    assert resources(objects, "cpu")["limits"] == {"cpu": "4", "memory": "9Gi"}
    more = {"cpu": "4", "memory": "17Gi", "nvidia.com/gpu": "2"}
    assert resources(objects, "more")["limits"] == more
    assert table(resources(objects, ""), "limits") == {"cpu": 3, "memory": "8Gi"}
    assert claim(objects) == (["ReadWriteMany"], "1Ti")


def test_a_first_install_names_where_runs_are_stored(renderer: Renderer) -> None:
    with pytest.raises(HelmError, match="storage: got neither a bucket nor a volume") as refusal:
        render_chart(renderer.helm, renderer.chart)

    for way in ("storage.url", "storage.existingClaim", "storage.claim.storageClass", "laptop"):
        assert way in str(refusal.value)
    for option in NAMED:
        assert render_chart(renderer.helm, renderer.chart, option), option
