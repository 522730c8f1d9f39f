"""The RayJob of an attempt, on a shared cluster and on one of its own."""

import copy
import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pydantic import JsonValue

from tests.controller.builders_view import CLASS_SPEC, SETTINGS, UID, make_view
from trainshed_api.groups import NodeGroup, decode_groups
from trainshed_api.json_object import as_object, objects
from trainshed_api.loading import load_text
from trainshed_controller.capacity import read_groups
from trainshed_controller.model import ClusterClass, GroupView, Room, Settings
from trainshed_controller.render import (
    progress_token,
    render_attempt,
    render_policy,
    unacceptable,
)
from trainshed_controller.settings import SettingsError, read_classes, read_platform

KEY = b"a key"
GROUPS = (
    GroupView("gpus", Room("gpu", 8.0, 1.0, 64e9), 2, labelled=True),
    GroupView("cpu", Room("cpu", 4.0, 0.0, math.inf), 1, labelled=True),
    GroupView("others", Room("others", 4.0, 0.0, 8e9), 1),
)


def part(value: JsonValue, *names: str) -> JsonValue:
    for name in names:
        value = as_object(value)[name]
    return value


def test_a_shared_cluster_is_selected_and_the_driver_told_who_it_is() -> None:
    job = render_attempt(make_view(gracePeriodSeconds=30), 2, SETTINGS, KEY, GROUPS)

    assert part(job, "metadata", "name") == "digits-2"
    assert part(job, "metadata", "ownerReferences") == [
        {
            "apiVersion": "trainshed.dev/v1alpha1",
            "kind": "TrainingRun",
            "name": "digits",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    spec = as_object(job["spec"])
    assert spec["clusterSelector"] == {"ray.io/cluster": "trainshed"}
    assert (spec["jobId"], spec["submissionMode"], spec["backoffLimit"]) == (
        "digits-0123abcd-2",
        "HTTPMode",
        0,
    )
    environment = yaml.safe_load(str(spec["runtimeEnvYAML"]))["env_vars"]
    run = load_text(environment.pop("TRAINSHED_SPEC"), "env")
    assert run.spec == make_view(gracePeriodSeconds=30).run.spec  # type: ignore[union-attr]  # valid
    assert decode_groups(environment.pop("TRAINSHED_GROUPS")) == (
        NodeGroup("gpu", 2, 8.0, 1.0, 64e9),
        NodeGroup("cpu", 1, 4.0, 0.0),
    ), "but for the group whose nodes do not say that they belong to it"
    address = f"/v1/namespaces/team/trainingruns/digits/{UID}/attempts/2/progress"
    assert environment == {
        "RAY_JOB_STOP_WAIT_TIME_S": "45",
        "TRAINSHED_NAMESPACE": "team",
        "TRAINSHED_UID": UID,
        "TRAINSHED_ATTEMPT": "2",
        "TRAINSHED_PROGRESS_URL": f"http://controller:8081{address}",
        "TRAINSHED_PROGRESS_TOKEN": progress_token(KEY, "team", "digits", UID, 2),
    }


def test_a_cluster_of_its_own_has_as_many_workers_as_the_run_needs() -> None:
    view = make_view(cluster={"dedicated": {}}, workers={"count": 5})

    job = render_attempt(view, 1, SETTINGS, KEY, ())

    spec = as_object(job["spec"])
    groups = read_groups(as_object(spec["rayClusterSpec"]))
    assert [group.wanted for group in groups] == [2], "five workers with a CPU, four to a Pod"
    assert spec["shutdownAfterJobFinishes"] is True
    assert "clusterSelector" not in spec
    assert part(job, "metadata", "annotations") == {
        "ray.io/disable-provisioned-head-restart": "true"
    }
    assert read_groups(CLASS_SPEC)[0].wanted == 0, "the class itself stays as it is"


IMAGE = f"registry.example.com/team/train:v1@sha256:{'0' * 64}"
ENV_FROM: list[JsonValue] = [
    {"secretRef": {"name": "wandb"}},
    {"configMapRef": {"name": "proxies"}},
]
PERMISSIONS = {
    "images": ("registry.example.com/team",),
    "secrets": ("wandb",),
    "configMaps": ("proxies",),
}


def permitting(**permissions: tuple[str, ...]) -> Settings:
    spec = copy.deepcopy(CLASS_SPEC)
    [worker] = objects(spec["workerGroupSpecs"])
    containers = objects(part(worker, "template", "spec", "containers"))
    containers[0]["envFrom"] = [{"secretRef": {"name": "of-the-class"}}]
    pod = as_object(part(worker, "template", "spec"))
    pod["containers"] = [*containers, {"name": "sidecar", "image": "s"}]
    return replace(
        SETTINGS, classes={"default": ClusterClass("default", spec, {**PERMISSIONS, **permissions})}
    )


def test_image_and_environment_of_a_run_reach_every_ray_container_of_its_cluster() -> None:
    view = make_view(cluster={"dedicated": {}}, image=IMAGE, envFrom=ENV_FROM)
    assert view.run

    assert unacceptable(view.run, permitting()) is None
    job = render_attempt(view, 1, permitting(), KEY, ())

    cluster = as_object(part(job, "spec", "rayClusterSpec"))
    [head] = objects(part(cluster, "headGroupSpec", "template", "spec", "containers"))
    [group] = objects(cluster["workerGroupSpecs"])
    worker, sidecar = objects(part(group, "template", "spec", "containers"))
    assert head["image"] == worker["image"] == IMAGE
    assert head["envFrom"] == ENV_FROM
    assert worker["envFrom"] == [*ENV_FROM, {"secretRef": {"name": "of-the-class"}}], (
        "the last one wins in a container"
    )
    assert sidecar == {"name": "sidecar", "image": "s"}


def test_the_autoscaler_of_kuberay_keeps_the_image_of_the_class() -> None:
    spec = copy.deepcopy(CLASS_SPEC)
    [head] = objects(part(spec, "headGroupSpec", "template", "spec", "containers"))
    head["image"] = "ray:1"
    spec["enableInTreeAutoscaling"] = True
    spec["autoscalerOptions"] = {"idleTimeoutSeconds": 9}
    settings = replace(
        SETTINGS, classes={"default": ClusterClass("default", spec, {**PERMISSIONS})}
    )

    job = render_attempt(make_view(cluster={"dedicated": {}}, image=IMAGE), 1, settings, KEY, ())

    options = part(job, "spec", "rayClusterSpec", "autoscalerOptions")
    assert options == {"image": "ray:1", "idleTimeoutSeconds": 9}


@pytest.mark.parametrize(
    ("permissions", "want"),
    [
        (
            {"images": ("registry.example.com/tea", "registry.example.com/team/train/x")},
            'spec.image: got "registry.example.com/team/train"; expected one that class '
            "'default' permits: registry.example.com/tea, registry.example.com/team/train/x. Add "
            "it to controller.classPermissions.default.images of the chart",
        ),
        ({"secrets": ()}, "spec.envFrom: got \"wandb\"; expected one that class 'default' permits"),
        ({"configMaps": ("wandb",)}, 'spec.envFrom: got "proxies"; expected one that class'),
    ],
    ids=["image", "secret", "configmap"],
)
def test_what_a_class_does_not_permit_is_refused_by_name(
    permissions: dict[str, tuple[str, ...]], want: str
) -> None:
    view = make_view(cluster={"dedicated": {}}, image=IMAGE, envFrom=ENV_FROM)
    assert view.run

    refusal = unacceptable(view.run, permitting(**permissions))

    assert refusal
    assert refusal[0] == "NotPermitted"
    assert refusal[1].startswith(want)
    with pytest.raises(ValueError, match="permits"):
        render_attempt(view, 1, permitting(**permissions), KEY, ())


def test_a_registry_of_another_port_is_another_registry() -> None:
    image = IMAGE.replace("example.com", "example.com:5000")
    view = make_view(cluster={"dedicated": {}}, image=image)
    assert view.run

    refusal = unacceptable(view.run, permitting(images=("registry.example.com",)))

    assert refusal
    assert 'got "registry.example.com:5000/team/train"' in refusal[1]


def test_permissions_of_classes_are_read_beside_them(tmp_path: Path) -> None:
    classes, permissions = tmp_path / "classes.yaml", tmp_path / "permissions.yaml"
    classes.write_text("small: {headGroupSpec: {}}")
    permissions.write_text("small: {images: [registry.example.com/team]}")

    assert read_classes(classes, permissions)["small"].permissions == {
        "images": ("registry.example.com/team",)
    }


def test_a_class_that_is_too_small_is_said_with_the_arithmetic() -> None:
    view = make_view(cluster={"dedicated": {}}, workers={"count": 9})
    assert view.run

    assert unacceptable(view.run, SETTINGS) == (
        "ExceedsClass",
        "spec.workers: 9 times 1 CPUs, and the data's CPUs, do not fit into class 'default' at its "
        "largest",
    )


def test_queue_and_priority_of_kueue_are_passed_on_and_kueue_decides_on_the_start() -> None:
    kueue = {
        "kueue.x-k8s.io/queue-name": "research",
        "kueue.x-k8s.io/priority-class": "urgent",
    }
    view = make_view(labels={**kueue, "mine": "1"}, cluster={"dedicated": {}})

    job = render_attempt(view, 1, SETTINGS, KEY, ())

    labels = as_object(part(job, "metadata", "labels"))
    assert {name: labels.get(name) for name in kueue} == kueue
    assert part(job, "spec", "suspend") is True
    assert "mine" not in labels


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [
        ({"nvidia.com/mig-1g.10gb": 2}, 2.0),
        ({"amd.com/gpu": "4"}, 4.0),
        ({"amd.com/gpu": 0, "nvidia.com/mig-3g.40gb": 1}, 1.0),
        ({"amd.com/gpu": 1, "nvidia.com/gpu": 8}, 1.0),
        ({"nvidia.com/gpu.shared": 4, "gpu.intel.com/i915": 1}, 0.0),
    ],
)
def test_the_gpu_resource_that_kuberay_passes_to_ray_counts(
    limits: dict[str, JsonValue], gpus: float
) -> None:
    template: JsonValue = {"spec": {"containers": [{"resources": {"limits": limits}}]}}

    [group] = read_groups({"workerGroupSpecs": [{"groupName": "a", "template": template}]})

    assert group.room.gpu == gpus


def test_what_a_pod_has_is_read_as_ray_reads_it() -> None:
    limits: dict[str, JsonValue] = {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": 2}
    template: JsonValue = {"spec": {"containers": [{"resources": {"limits": limits}}]}}
    spec: dict[str, JsonValue] = {
        "workerGroupSpecs": [
            {"groupName": "a", "replicas": 3, "maxReplicas": 9, "template": template},
            {
                "groupName": "b",
                "replicas": 1,
                "rayStartParams": {"num-cpus": "8"},
                "labels": {"trainshed.dev/group": "mine"},
            },
        ]
    }

    offer = Room("", 2.0, 2.0, 2.0 * 2**30)
    assert read_groups(spec)[0] == GroupView("a", replace(offer, group="a"), 3, offer=offer)
    assert read_groups(spec)[1].room.cpu == 8.0
    assert read_groups(spec)[1].room.group == "mine"
    assert [group.labelled for group in read_groups(spec)] == [False, True]
    assert read_groups(spec | {"enableInTreeAutoscaling": True})[0].wanted == 9


def test_settings_come_from_the_environment() -> None:
    platform = read_platform(
        {
            "TRAINSHED_CONTROLLER_NAMESPACE": "team",
            "TRAINSHED_CONTROLLER_DEFAULT_CLUSTER": "blue",
        }
    )

    assert platform.settings.default_cluster == "blue"
    assert platform.kubeconfig is None


@pytest.mark.parametrize("told", ["", "blue", "red, green", "red,red,green,"])
def test_the_default_cluster_is_always_shared(told: str) -> None:
    platform = read_platform(
        {
            "TRAINSHED_CONTROLLER_DEFAULT_CLUSTER": "blue",
            "TRAINSHED_CONTROLLER_SHARED_CLUSTERS": told,
        }
    )

    want = {"blue", "red", "green"} if "red" in told else {"blue"}
    assert platform.settings.shared_clusters == want
    assert Settings(default_cluster="mine").shared_clusters == {"mine"}


@pytest.mark.parametrize(
    ("name", "wrong", "want"),
    [
        ("HEALTH_PORT", "8080.5", 'HEALTH_PORT: got "8080.5"; expected a whole number'),
        ("WEBHOOK_FORMAT", "xml", 'WEBHOOK_FORMAT: got "xml"; expected json or slack'),
        ("RESYNC_SECONDS", "x", 'RESYNC_SECONDS: got "x"; expected a number'),
    ],
)
def test_a_wrong_setting_is_named(name: str, wrong: str, want: str) -> None:
    with pytest.raises(SettingsError, match=f"^TRAINSHED_CONTROLLER_{want}$"):
        read_platform({f"TRAINSHED_CONTROLLER_{name}": wrong})


WRONG = {
    "- 1": "expected a map from name to RayClusterSpec",
    "small: {}": "class small: expected a RayClusterSpec, with headGroupSpec",
    "{": "expected",
}


@pytest.mark.parametrize("text", WRONG)
def test_classes_that_are_none_are_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "classes.yaml"
    file.write_text(text)

    with pytest.raises(SettingsError, match=WRONG[text]):
        read_classes(file)


def test_a_policy_means_the_pods_of_a_runs_own_clusters_and_no_others() -> None:
    settings = replace(SETTINGS, isolates_clusters=True)
    view = make_view(cluster={"dedicated": {}})

    policy = render_policy(view, settings)
    cluster = part(render_attempt(view, 1, settings, KEY, ()), "spec", "rayClusterSpec")

    labels: JsonValue = {"trainshed.dev/run": "digits"}
    own: JsonValue = {"matchLabels": labels}
    assert policy
    assert part(policy, "spec") == {
        "podSelector": own,
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": own}]}],
        "egress": [{"to": [{"podSelector": own}]}],
    }
    groups = part(cluster, "workerGroupSpecs")
    assert isinstance(groups, list)
    for group in (part(cluster, "headGroupSpec"), *groups):
        assert part(group, "template", "metadata", "labels") == labels


def test_without_policies_the_pods_of_a_run_lack_the_label_that_one_would_select() -> None:
    view = make_view(cluster={"dedicated": {}})

    job = render_attempt(view, 1, replace(SETTINGS, isolates_clusters=False), KEY, ())

    assert "trainshed.dev/run" not in str(part(job, "spec", "rayClusterSpec"))


def test_a_run_on_a_shared_cluster_or_without_policies_has_none() -> None:
    dedicated = make_view(cluster={"dedicated": {}})

    assert render_policy(make_view(), replace(SETTINGS, isolates_clusters=True)) is None
    assert render_policy(dedicated, SETTINGS) is None
    assert read_platform({"TRAINSHED_CONTROLLER_NETWORK_POLICY": "true"}).settings.isolates_clusters
