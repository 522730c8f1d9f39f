"""Pods of a RayCluster are those that KubeRay makes."""

from pydantic import JsonValue

from tests.kuberay.builders import make_cluster, make_cluster_spec, make_group, make_template
from tests.kuberay.pods import render_head_pod, render_worker_pod
from tests.kuberay.rayresources import RayCluster
from tests.kuberay.resources import Container, Manifest, Pod

HOST = "shared-head-svc.team.svc.cluster.local"
RESOURCES: Manifest = {
    "limits": {"cpu": "1500m", "memory": "8Gi", "nvidia.com/gpu": 2},
    "requests": {"cpu": "1", "memory": "8Gi"},
}


def cluster(
    *groups: Manifest, head: Manifest | None = None, name: str = "shared", **fields: JsonValue
) -> RayCluster:
    manifest = make_cluster(name, make_cluster_spec(*groups, head=head, **fields))
    found = RayCluster.model_validate(manifest)
    found.metadata.namespace, found.metadata.uid = "team", "1-2-3"
    return found


def worker(**fields: JsonValue) -> Pod:
    of = cluster(make_group("gpu", 1, **fields))
    return render_worker_pod(of, of.spec.worker_group_specs[0], 0)


def ray(pod: Pod) -> Container:
    return pod.spec.containers[0]


def start_of(pod: Pod) -> list[str]:
    """Return the words of `ray start`."""
    assert ray(pod).command == ["/bin/bash", "-c", "--"]
    [text] = ray(pod).args or []
    prefix = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; ray start "
    assert text.startswith(prefix)
    return text.removeprefix(prefix).split()


def env_of(container: Container) -> dict[str, JsonValue]:
    return {
        variable.name: variable.value_from if variable.value is None else variable.value
        for variable in container.env
    }


def test_a_head_starts_with_the_words_of_its_group() -> None:
    assert start_of(render_head_pod(cluster())) == [
        "--head",
        "--block",
        "--dashboard-agent-listen-port=52365",
        "--dashboard-host=0.0.0.0",
        "--metrics-export-port=8080",
        "--num-cpus=0",
    ]


def test_a_worker_joins_the_head_with_what_its_container_may_use() -> None:
    assert start_of(worker(template=make_template(resources=RESOURCES))) == [
        f"--address={HOST}:6379",
        "--block",
        "--dashboard-agent-listen-port=52365",
        "--memory=8589934592",
        "--metrics-export-port=8080",
        "--num-cpus=2",
        "--num-gpus=2",
    ]


def test_start_parameters_win_over_the_container() -> None:
    words = start_of(
        worker(
            template=make_template(resources=RESOURCES),
            rayStartParams={"num-cpus": "7", "num-gpus": "1"},
        )
    )
    assert {"--num-cpus=7", "--num-gpus=1"} <= set(words)


def test_resources_and_labels_of_a_group_become_those_of_its_ray_nodes() -> None:
    pod = worker(
        template=make_template(resources=RESOURCES),
        resources={"CPU": "3", "GPU": "1", "memory": "1Gi", "spot": "1"},
        labels={"trainshed.dev/group": "gpu", "disk": "fast"},
    )
    assert {
        "--num-cpus=3",
        "--num-gpus=1",
        "--memory=1073741824",
        """--resources='{"spot":1}'""",
        "--labels=disk=fast,trainshed.dev/group=gpu",
    } <= set(start_of(pod))
    assert pod.metadata.labels["trainshed.dev/group"] == "gpu"


def test_a_command_of_the_users_own_runs_before_ray_starts() -> None:
    pod = worker(template=make_template(command=["bash", "setup.sh"]))
    [text] = ray(pod).args or []
    assert text.startswith(" bash  setup.sh  && ulimit -n ")


def test_a_command_that_starts_ray_itself_stays_as_it_is() -> None:
    pod = worker(template=make_template(command=["bash", "-c"], args=["ray start --mine"]))
    assert (ray(pod).command, ray(pod).args) == (["bash", "-c"], ["ray start --mine"])
    assert str(env_of(ray(pod))["KUBERAY_GEN_RAY_START_CMD"]).startswith("ray start  --address=")


def test_labels_of_a_pod_tell_its_place_and_cannot_be_overridden() -> None:
    template = make_template()
    template["metadata"] = {"labels": {"ray.io/group": "mine", "team": "vision"}}
    assert worker(template=template).metadata.labels == {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster": "shared",
        "ray.io/group": "gpu",
        "ray.io/identifier": "shared-worker",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": "worker",
        "ray.io/worker-group-replica-index": "0",
        "team": "vision",
    }


def test_a_worker_waits_for_the_head_under_the_rules_of_its_own_container() -> None:
    security: Manifest = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod = worker(template=make_template(securityContext=security))
    [wait] = pod.spec.init_containers
    assert wait.name == "wait-gcs-ready"
    assert wait.image == ray(pod).image
    assert wait.security_context == security
    assert f"ray health-check --address {HOST}:6379" in (wait.args or [""])[0]
    assert wait.resources.limits == {"cpu": "200m", "memory": "256Mi"}
    assert not render_head_pod(cluster()).spec.init_containers


def test_containers_know_where_their_head_is() -> None:
    on_head, on_worker = env_of(ray(render_head_pod(cluster()))), env_of(ray(worker()))
    assert on_head["RAY_ADDRESS"] == "127.0.0.1:6379"
    assert on_worker["RAY_ADDRESS"] == f"{HOST}:6379"
    assert (on_worker["FQ_RAY_IP"], on_worker["RAY_IP"]) == (HOST, "shared-head-svc")
    assert on_worker["RAY_CLUSTER_NAME"] == {
        "fieldRef": {"fieldPath": "metadata.labels['ray.io/cluster']"}
    }
    assert on_head["RAY_USAGE_STATS_EXTRA_TAGS"] == (
        "kuberay_version=v1.7.0;kuberay_crd=RayCluster"
    )


def test_ray_is_asked_for_its_health_unless_the_user_says_how() -> None:
    ours = ray(worker()).readiness_probe
    assert isinstance(ours, dict)
    assert ours["httpGet"] == {"path": "/api/healthz", "port": 52365}
    own = ray(worker(template=make_template(livenessProbe={"exec": {"command": ["true"]}})))
    assert own.liveness_probe == {"exec": {"command": ["true"]}}


def test_shared_memory_is_mounted_unless_the_user_has_done_so() -> None:
    pod = worker(template=make_template(resources=RESOURCES))
    [volume] = pod.spec.volumes
    assert volume.manifest() == {
        "name": "shared-mem",
        "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"},
    }
    mount: Manifest = {"name": "mine", "mountPath": "/dev/shm"}
    own = worker(template=make_template(volumeMounts=[mount]))
    assert [mount.name for mount in ray(own).volume_mounts] == ["mine"]
    assert not own.spec.volumes


def test_what_the_stand_in_does_not_know_passes_through() -> None:
    template = make_template(lifecycle={"preStop": {"exec": {"command": ["true"]}}})
    spec = template["spec"]
    assert isinstance(spec, dict)
    spec["terminationGracePeriodSeconds"] = 90
    made = worker(template=template).manifest()["spec"]
    assert isinstance(made, dict)
    assert made["terminationGracePeriodSeconds"] == 90
    assert "preStop" in str(made["containers"])
