"""What every Pod of a release is and is not; those that KubeRay makes of the RayCluster, too."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.chart.pods import containers_of, expand_pods
from tests.chart.rendering import (
    VALUES_FILES,
    Object,
    Renderer,
    at,
    name_of,
    of_kind,
    rows,
    table,
    text,
)

ALLOWED_VOLUMES = {
    "configMap",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
FORBIDDEN = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
REFERENCE = re.compile(r"^[a-z0-9.:/_-]+(:[\w][\w.-]*|@sha256:[0-9a-f]{64})$")


@pytest.fixture(params=list(VALUES_FILES))
def objects(request: pytest.FixtureRequest, renderer: Renderer) -> list[Object]:
    return renderer.render(VALUES_FILES[request.param])


@pytest.fixture
def pods(objects: list[Object]) -> list[Object]:
    return expand_pods(objects)


def test_pods_are_what_restricted_asks_for(pods: list[Object]) -> None:
    for pod in pods:
        spec = table(pod, "spec")
        assert not [field for field in FORBIDDEN if spec.get(field)], name_of(pod)
        user = table(spec, "securityContext")
        assert user["runAsNonRoot"] is True, name_of(pod)
        assert isinstance(user["runAsUser"], int), name_of(pod)
        assert user["runAsUser"] > 0, name_of(pod)
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}, name_of(pod)
        for volume in rows(spec, "volumes"):
            assert set(volume) - {"name"} <= ALLOWED_VOLUMES, (name_of(pod), volume)
        for container in containers_of(pod):
            security = table(container, "securityContext")
            assert security["allowPrivilegeEscalation"] is False, (name_of(pod), container["name"])
            assert security["capabilities"] == {"drop": ["ALL"]}, (name_of(pod), container["name"])
            assert not [port for port in rows(container, "ports") if "hostPort" in port]


def test_no_container_can_write_to_its_image(pods: list[Object]) -> None:
    for pod in pods:
        for container in containers_of(pod):
            assert at(container, "securityContext", "readOnlyRootFilesystem") is True, name_of(pod)


def test_every_container_says_what_it_needs(pods: list[Object]) -> None:
    for pod in pods:
        for container in containers_of(pod):
            for part in ("requests", "limits"):
                have = table(container, "resources", part)
                assert {"cpu", "memory"} <= set(have), (name_of(pod), container["name"], part)


def test_no_pod_is_handed_a_token_for_kubernetes_or_addresses_of_services(
    pods: list[Object],
) -> None:
    for pod in pods:
        assert at(pod, "spec", "automountServiceAccountToken") is False, name_of(pod)
        assert at(pod, "spec", "enableServiceLinks") is False, name_of(pod)
        assert text(pod, "spec", "serviceAccountName") != "default", name_of(pod)


def test_workers_do_not_wait_for_a_head_that_is_lost(pods: list[Object]) -> None:
    workers = [pod for pod in pods if at(pod, "metadata", "labels", "ray.io/node-type") == "worker"]

    assert workers
    for pod in workers:
        env = rows(rows(pod, "spec", "containers")[0], "env")
        # A minute is Ray's default; the head comes back sooner, as another cluster.
        waits = {"name": "RAY_gcs_rpc_server_reconnect_timeout_s", "value": "10"}
        assert waits in env, name_of(pod)


def test_workers_watch_their_head_and_leave_it(pods: list[Object]) -> None:
    workers = [pod for pod in pods if at(pod, "metadata", "labels", "ray.io/node-type") == "worker"]

    assert workers
    for pod in workers:
        assert follows_its_head(table(pod, "spec"), "6379"), name_of(pod)


def test_workers_of_every_class_do_so_but_where_a_class_says_something_else(
    renderer: Renderer, tmp_path: Path
) -> None:
    container: Object = {"name": "ray-worker", "image": "own/ray:1"}
    own: Object = {"args": ["sleep 1"], "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}
    groups: list[Object] = [
        {"groupName": "silent", "template": {"spec": {"containers": [container]}}},
        {"groupName": "own", "template": {"spec": {"containers": [{**container, **own}]}}},
    ]
    head: Object = {"rayStartParams": {"port": "6380"}}
    mine = {"headGroupSpec": head, "workerGroupSpecs": groups}
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"controller": {"classes": {"mine": mine}}}))

    classes = classes_of(renderer, values)

    for group in rows(classes, "default", "workerGroupSpecs"):
        assert follows_its_head(table(group, "template", "spec"), "6379")
    silent, other = rows(classes, "mine", "workerGroupSpecs")
    assert follows_its_head(table(silent, "template", "spec"), "6380")
    # What ends with its head and starts again in its Pod would wait for no head.
    assert text(silent, "template", "spec", "restartPolicy") == "Never"
    (kept,) = rows(other, "template", "spec", "containers")
    assert {key: kept[key] for key in own} == own
    assert at(other, "template", "spec", "restartPolicy") is None


def test_workers_wait_for_a_head_that_comes_back_as_the_same(
    renderer: Renderer, tmp_path: Path
) -> None:
    container: Object = {"name": "ray-worker", "image": "own/ray:1"}
    group: Object = {"groupName": "a", "template": {"spec": {"containers": [container]}}}
    lasting = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
    mine = {"headGroupSpec": {}, "workerGroupSpecs": [group], **lasting}
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"controller": {"classes": {"mine": mine}}}))

    (kept,) = rows(classes_of(renderer, values), "mine", "workerGroupSpecs")

    (other,) = rows(kept, "template", "spec", "containers")
    assert {key: other[key] for key in container} == container
    assert not {"args", "lifecycle"} & set(other)
    assert at(kept, "template", "spec", "restartPolicy") is None


def test_no_two_dedicated_clusters_have_one_token(renderer: Renderer, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    own: Object = {"authOptions": {"mode": "token", "secretName": "ours"}, "rayVersion": "2.59.0"}
    classes = {"bare": {"headGroupSpec": {}}, "own": {"headGroupSpec": {}, **own}}
    values.write_text(json.dumps({"controller": {"classes": classes}}))

    found = classes_of(renderer, values)

    # KubeRay makes a token for each cluster that names no Secret.
    assert at(found, "default", "authOptions") == {"mode": "token"}
    assert at(found, "bare", "authOptions") == {"mode": "token"}
    assert at(found, "bare", "rayVersion") == at(found, "default", "rayVersion")
    assert {key: at(found, "own", key) for key in own} == own


def test_a_trusted_class_may_use_its_node(renderer: Renderer, tmp_path: Path) -> None:
    pod: Object = {"hostNetwork": True, "securityContext": {"runAsUser": 0}}
    big: Object = {"headGroupSpec": {"template": {"spec": pod}}}
    values = tmp_path / "values.yaml"
    values.write_text(
        json.dumps({"controller": {"classes": {"big": big}, "trustedClasses": ["big"]}})
    )

    found = classes_of(renderer, values)

    assert table(found, "big", "headGroupSpec", "template", "spec").items() >= pod.items()


def test_a_class_gets_the_protection_that_it_leaves_out(renderer: Renderer, tmp_path: Path) -> None:
    pod: Object = {
        "serviceAccountName": "special",
        "securityContext": {"runAsUser": 7, "runAsGroup": 0},
        "containers": [
            {"name": "ray-worker", "image": "own/ray:1"},
            {"name": "side", "image": "own/side:1", "securityContext": {"runAsUser": 8}},
        ],
    }
    metadata: Object = {"labels": {"team": "red", "app.kubernetes.io/component": "mine"}}
    group: Object = {"groupName": "a", "template": {"metadata": metadata, "spec": pod}}
    container: Object = {"name": "ray-head", "image": "own/ray:1"}
    head: Object = {
        "template": {"spec": {"containers": [container], "initContainers": [container]}}
    }
    values = tmp_path / "values.yaml"
    mine = {"headGroupSpec": head, "workerGroupSpecs": [group]}
    values.write_text(json.dumps({"controller": {"classes": {"mine": mine}}}))

    found = classes_of(renderer, values)

    labels = {
        "app.kubernetes.io/part-of": "trainshed",
        "app.kubernetes.io/instance": "trainshed",
        "app.kubernetes.io/component": "ray",
    }
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    template = table(found, "mine", "headGroupSpec", "template")
    assert table(template, "metadata", "labels") == labels
    assert at(template, "spec", "serviceAccountName") == "trainshed-ray"
    assert at(template, "spec", "automountServiceAccountToken") is False
    assert at(template, "spec", "securityContext", "runAsNonRoot") is True
    for row in rows(template, "spec", "containers") + rows(template, "spec", "initContainers"):
        assert table(row, "securityContext").items() >= closed.items()
    (kept,) = rows(found, "mine", "workerGroupSpecs")
    assert table(kept, "template", "metadata", "labels") == {**labels, "team": "red"}
    assert at(kept, "template", "spec", "serviceAccountName") == "special"
    own = table(kept, "template", "spec", "securityContext")
    assert own.items() >= {"runAsUser": 7, "runAsGroup": 0, "runAsNonRoot": True}.items()
    ray, side = rows(kept, "template", "spec", "containers")
    assert table(ray, "securityContext").items() >= closed.items()
    assert table(side, "securityContext").items() >= {**closed, "runAsUser": 8}.items()


def classes_of(renderer: Renderer, values: Path) -> Object:
    """Return the kinds of clusters that runs may have for themselves."""
    maps = of_kind(renderer.render(values), "ConfigMap")
    (found,) = (m["data"]["classes.yaml"] for m in maps if at(m, "data", "classes.yaml"))  # type: ignore[call-overload,index]
    classes: Object = yaml.safe_load(str(found))
    return classes


def test_a_class_may_say_nothing_of_its_workers(renderer: Renderer, tmp_path: Path) -> None:
    groups = [{"groupName": "a"}, {"groupName": "b", "template": None}]
    odd = {"headGroupSpec": {"rayStartParams": None}, "workerGroupSpecs": groups}
    bare: Object = {"headGroupSpec": {}, "workerGroupSpecs": None}
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"controller": {"classes": {"odd": odd, "bare": bare}}}))

    assert "groupName: a" in renderer.render_text(values)


def follows_its_head(pod: Object, port: str) -> bool:
    """Say whether a Pod watches its head beside Ray, and drains towards that one alone."""
    (ray, *_) = rows(pod, "containers")
    watches = " ".join(map(str, ray["args"]))  # type: ignore[arg-type]
    leaves = text(ray, "lifecycle", "preStop", "exec", "command", 2)
    told = f"export HEAD_PORT={port}\n"
    # KubeRay runs nothing of its own where it finds that already.
    assert "ray start" not in watches.partition(" && ulimit")[0]
    assert told in watches
    assert told in leaves
    return "end_raylet" in watches and "ray drain-node" in leaves


def test_pods_have_what_a_platform_adds_to_them(renderer: Renderer) -> None:
    objects = renderer.render(VALUES_FILES["rdma-values.yaml"])
    pods = expand_pods(objects)

    for pod in pods:
        labels = table(pod, "metadata", "labels")
        assert labels["cost-centre"] == "research", name_of(pod)
        assert labels["sidecar.istio.io/inject"] == "false", name_of(pod)
        assert at(pod, "metadata", "annotations", "example.com/owner") == "ml-platform"
        assert labels["app.kubernetes.io/part-of"] == "trainshed", name_of(pod)
    by_group = {text(p, "metadata", "labels", "ray.io/group"): p for p in ray_pods(pods)}
    gpu = by_group["gpu"]
    ray, logs = rows(gpu, "spec", "containers")
    assert (
        table(ray, "resources", "limits").items()
        >= {
            "rdma/hca": 8,
            "vpc.amazonaws.com/efa": 4,
            "ephemeral-storage": "60Gi",
            "nvidia.com/gpu": "8",
        }.items()
    )
    assert {"name": "cache", "mountPath": "/cache"} in rows(ray, "volumeMounts")
    assert "ephemeral" in next(v for v in rows(gpu, "spec", "volumes") if v["name"] == "cache")
    assert "check-fabric" in [text(c, "name") for c in rows(gpu, "spec", "initContainers")]
    assert text(logs, "name") == "logs"
    assert at(gpu, "spec", "schedulerName") == "volcano"
    assert at(gpu, "metadata", "labels", "example.com/kind") == "training"
    [constraint] = rows(gpu, "spec", "topologySpreadConstraints")
    assert constraint["topologyKey"] == "topology.kubernetes.io/zone"
    [cluster] = of_kind(objects, "RayCluster")
    assert table(cluster, "spec", "headGroupSpec", "rayStartParams") == {
        "num-cpus": "0",
        "dashboard-host": "0.0.0.0",
        "object-store-memory": "2000000000",
    }
    params = {
        g["groupName"]: g["rayStartParams"] for g in rows(cluster, "spec", "workerGroupSpecs")
    }
    assert params == {"gpu": {}, "cpu": {}, "shared": {"num-gpus": "2"}}


def test_labels_of_the_platform_reach_every_pod_once(renderer: Renderer, tmp_path: Path) -> None:
    container: Object = {"name": "ray-head", "image": "own/ray:1"}
    mine = {"headGroupSpec": {"template": {"spec": {"containers": [container]}}}}
    labels = {"team": "red", "app.kubernetes.io/name": "x", "azure.workload.identity/use": "no"}
    values = tmp_path / "values.yaml"
    values.write_text(
        json.dumps(
            {
                "podLabels": labels,
                "podAnnotations": {"a": "b"},
                "storage": {"url": "abfs://runs@account.dfs.core.windows.net", "identity": "azure"},
                "serviceAccount": {"annotations": {"azure.workload.identity/client-id": "0"}},
                "controller": {"classes": {"mine": mine}},
            }
        )
    )

    for pod in ray_pods(expand_pods(renderer.render(values))):
        assert table(pod, "metadata", "labels")["azure.workload.identity/use"] == "true"
    head = table(classes_of(renderer, values), "mine", "headGroupSpec", "template", "metadata")
    assert table(head, "labels")["team"] == "red"
    assert head["annotations"] == {"a": "b"}


def test_the_job_with_the_digits_changes_its_name_with_its_labels(renderer: Renderer) -> None:
    def names(*options: str) -> set[str]:
        jobs = of_kind(renderer.render(None, *options), "Job")
        return {text(job, "metadata", "name") for job in jobs} - {"trainshed-uninstall"}

    # What a Job makes cannot be changed.
    assert not names() & names("--set=podLabels.team=red")


def ray_pods(pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if at(pod, "metadata", "labels", "ray.io/group") is not None]


def test_an_id_that_the_platform_chooses_is_left_out(renderer: Renderer) -> None:
    for pod in expand_pods(
        renderer.render(
            None, *(f"--set=podSecurityContext.{f}=null" for f in ("runAsUser", "fsGroup"))
        )
    ):
        security = table(pod, "spec", "securityContext")
        assert not {"runAsUser", "fsGroup"} & set(security), name_of(pod)
        assert security["runAsGroup"] == 1000, name_of(pod)


def test_numbers_of_the_environment_are_not_rounded(renderer: Renderer) -> None:
    objects = renderer.render(None, "--set=ray.env.BYTES=12345678,ray.env.ON=true")

    for pod in ray_pods(expand_pods(objects)):
        env = {row["name"]: row.get("value") for row in rows(pod, "spec", "containers", 0, "env")}
        assert (env["BYTES"], env["ON"]) == ("12345678", "true")


def test_only_the_controller_starts_again_in_its_pod(pods: list[Object]) -> None:
    again = {name_of(pod) for pod in pods if at(pod, "spec", "restartPolicy") != "Never"}

    assert again == {"Pod/trainshed-controller-pod"}


def test_every_image_has_a_tag_or_a_digest(pods: list[Object]) -> None:
    for pod in pods:
        for container in containers_of(pod):
            image = text(container, "image")
            assert REFERENCE.match(image), image
            assert not image.endswith(":latest"), image


def test_every_mount_has_its_volume(pods: list[Object]) -> None:
    for pod in pods:
        volumes = {volume["name"] for volume in rows(pod, "spec", "volumes")}
        for container in containers_of(pod):
            mounts = {mount["name"] for mount in rows(container, "volumeMounts")}
            assert mounts <= volumes, (name_of(pod), container["name"])


def test_rbac_names_what_it_allows(objects: list[Object]) -> None:
    for kind in ("Role", "ClusterRole"):
        for role in of_kind(objects, kind):
            for rule in rows(role, "rules"):
                for words in rule.values():
                    assert isinstance(words, list)
                    assert "*" not in words, name_of(role)
                assert not {"escalate", "bind", "impersonate"} & set(map(str, rule["verbs"]))  # type: ignore[arg-type]
                assert "pods/exec" not in rule.get("resources", [])  # type: ignore[operator]


def test_accounts_hand_out_no_token_by_themselves(objects: list[Object]) -> None:
    for account in of_kind(objects, "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False, name_of(account)
