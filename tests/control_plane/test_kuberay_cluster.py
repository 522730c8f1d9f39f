"""The stand-in makes of a RayCluster what KubeRay makes of it, on a real API server."""

import base64

from tests.control_plane.plugin import ControlPlane
from tests.kuberay.api import CLUSTERS, PODS, SERVICES
from tests.kuberay.builders import make_cluster, make_cluster_spec, make_group, make_template
from tests.kuberay.rayresources import RayCluster
from tests.kuberay.resources import Pod, Service
from tests.kuberay.stage import Stage, open_stage


def is_ready(cluster: RayCluster) -> bool:
    return cluster.status.state == "ready"


def kind_of(pod: Pod) -> str:
    return pod.metadata.labels["ray.io/node-type"]


async def head_of(stage: Stage, cluster: str = "shared", *, but: str = "") -> Pod:
    """Return the cluster's head when it is ready, another one than `but`."""
    found = await stage.pods(
        cluster,
        lambda pods: any(
            kind_of(p) == "head" and p.is_ready and p.metadata.uid != but for p in pods
        ),
    )
    return next(pod for pod in found if kind_of(pod) == "head" and pod.metadata.uid != but)


async def test_a_cluster_gets_its_head_its_workers_and_a_service(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        spec = make_cluster_spec(make_group("gpu", 1), make_group("cpu", 2))
        await stage.create(CLUSTERS, make_cluster(spec=spec))
        cluster = await stage.cluster("shared", is_ready)
        pods = await stage.pods("shared")

        assert sorted(pod.metadata.labels["ray.io/group"] for pod in pods) == [
            "cpu",
            "cpu",
            "gpu",
            "headgroup",
        ]
        head = next(pod for pod in pods if kind_of(pod) == "head")
        assert head.name.startswith("shared-head-")
        assert head.metadata.labels["ray.io/identifier"] == "shared-head"
        assert {pod.metadata.owner_references[0].uid for pod in pods} == {cluster.metadata.uid}
        assert cluster.status.holds("HeadPodReady")
        assert cluster.status.holds("RayClusterProvisioned")
        assert cluster.status.desired_worker_replicas == 3
        assert cluster.status.ready_worker_replicas == 3
        assert cluster.status.head.pod_name == head.name
        assert cluster.status.head.pod_ip == head.status.pod_ip
        assert cluster.status.head.service_name == "shared-head-svc"
        assert cluster.status.endpoints["dashboard"] == "8265"

        service = await stage.api.get(SERVICES, namespace, "shared-head-svc")
        assert {port.name: port.port for port in Service.model_validate(service).spec.ports} == {
            "client": 10001,
            "dashboard": 8265,
            "gcs-server": 6379,
            "metrics": 8080,
            "serve": 8000,
        }
        show = ("get", "service", "shared-head-svc", "-n", namespace)
        assert control_plane.kubectl(*show, "-o", "jsonpath={.spec.clusterIP}") == "None"


async def test_a_cluster_with_tokens_gets_a_random_one_that_every_pod_is_given(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        spec = make_cluster_spec(authOptions={"mode": "token"})
        await stage.create(CLUSTERS, make_cluster(spec=spec))
        await stage.cluster("shared", is_ready)
        show = ("get", "secret", "shared", "-n", namespace)
        encoded = control_plane.kubectl(*show, "-o", "jsonpath={.data.auth_token}")
        assert len(base64.b64decode(base64.b64decode(encoded))) == 32
        for pod in await stage.pods("shared"):
            env = {variable.name: variable for variable in pod.spec.containers[0].env}
            assert env["RAY_AUTH_MODE"].value == "token"
            assert env["RAY_AUTH_TOKEN"].value_from == {
                "secretKeyRef": {"name": "shared", "key": "auth_token"}
            }


async def test_groups_follow_their_replicas_up_and_down(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        await stage.create(CLUSTERS, make_cluster())
        await stage.cluster("shared", is_ready)
        for replicas in (3, 1, 0):
            spec = make_cluster_spec(make_group(replicas=replicas))
            await stage.api.patch(CLUSTERS, namespace, "shared", {"spec": spec})
            pods = await stage.pods("shared", lambda pods: len(pods) == replicas + 1)  # noqa: B023
            assert sum(kind_of(pod) == "worker" for pod in pods) == replicas
            cluster = await stage.cluster(
                "shared",
                lambda found: found.status.ready_worker_replicas == replicas,  # noqa: B023
            )
            assert cluster.status.state == "ready"


async def test_a_pod_that_ended_is_replaced_and_the_cluster_is_called_ready_throughout(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        await stage.create(CLUSTERS, make_cluster())
        await stage.cluster("shared", is_ready)
        head = await head_of(stage)
        worker = next(pod for pod in await stage.pods("shared") if kind_of(pod) == "worker")

        await stage.kubelet.end_container(namespace, worker.name, exit_code=1)
        await stage.pods(
            "shared", lambda pods: all(p.name != worker.name and p.is_ready for p in pods)
        )
        await stage.kubelet.end_container(namespace, head.name, reason="OOMKilled")
        await head_of(stage, but=head.metadata.uid or "")
        cluster = await stage.cluster("shared", lambda found: found.status.holds("HeadPodReady"))
        assert cluster.status.state == "ready"
        events = control_plane.kubectl("get", "events", "-n", namespace, "-o", "json")
        assert f"Deleted head Pod {namespace}/{head.name}" in events
        assert "exit code 137, OOMKilled" in events


async def test_an_evicted_pod_says_why_until_it_is_replaced(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        await stage.create(CLUSTERS, make_cluster())
        await stage.cluster("shared", is_ready)
        worker = next(pod for pod in await stage.pods("shared") if kind_of(pod) == "worker")
        await stage.stop_operator()
        await stage.kubelet.evict(namespace, worker.name, "The node was low on memory.")
        show = ("get", "pod", worker.name, "-n", namespace)
        why = control_plane.kubectl(*show, "-o", "jsonpath={.status.reason}: {.status.message}")
        assert why == "Evicted: The node was low on memory."
        await stage.start_operator()
        await stage.pods(
            "shared", lambda pods: all(p.name != worker.name and p.is_ready for p in pods)
        )


async def test_a_container_that_may_restart_stays_in_its_pod(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        spec = make_cluster_spec(head={"template": make_template(restart_policy="Always")})
        await stage.create(CLUSTERS, make_cluster(spec=spec))
        await stage.cluster("shared", is_ready)
        head = await head_of(stage)
        before = stage.dashboards.identity(namespace, "shared")
        await stage.kubelet.end_container(namespace, head.name)
        again = await head_of(stage)
        assert again.metadata.uid == head.metadata.uid
        status = again.status.container_statuses[0]
        assert status.restart_count == 1
        assert status.container_id != head.status.container_statuses[0].container_id
        assert stage.dashboards.identity(namespace, "shared") != before


async def test_a_head_is_not_made_again_where_the_cluster_says_so(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        cluster = make_cluster(disable_provisioned_head_restart="true")
        await stage.create(CLUSTERS, cluster)
        await stage.cluster("shared", is_ready)
        head = await head_of(stage)
        await stage.kubelet.kill_pod(namespace, head.name)
        found = await stage.cluster("shared", lambda found: not found.status.holds("HeadPodReady"))
        assert found.status.state == "ready"
        condition = next(c for c in found.status.conditions if c.type == "HeadPodReady")
        assert condition.reason == "HeadPodNotFound"
        assert [kind_of(pod) for pod in await stage.pods("shared")] == ["worker"]


async def test_a_suspended_cluster_has_no_pods_and_comes_back(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        await stage.create(CLUSTERS, make_cluster())
        await stage.cluster("shared", is_ready)
        await stage.api.patch(CLUSTERS, namespace, "shared", {"spec": {"suspend": True}})
        found = await stage.cluster("shared", lambda found: found.status.state == "suspended")
        found = await stage.cluster(
            "shared", lambda found: found.status.holds("RayClusterSuspended")
        )
        assert not found.status.holds("RayClusterProvisioned")
        await stage.pods("shared", lambda pods: not pods)
        await stage.api.patch(CLUSTERS, namespace, "shared", {"spec": {"suspend": False}})
        await stage.cluster("shared", is_ready)


async def test_a_cluster_that_is_not_valid_is_left_alone_with_an_event(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        spec = make_cluster_spec(authOptions={"mode": "token"}, rayVersion="2.40.0")
        await stage.create(CLUSTERS, make_cluster("wrong", spec))
        await stage.create(CLUSTERS, make_cluster("right"))
        await stage.cluster("right", is_ready)
        wrong = await stage.cluster("wrong")
        assert wrong.status.state is None
        assert await stage.pods("wrong") == []
        events = control_plane.kubectl("get", "events", "-n", namespace, "-o", "json")
        assert "minimum Ray version is 2.52.0, got 2.40.0" in events


async def test_what_a_cluster_owns_goes_with_it_and_nothing_else(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    async with open_stage(control_plane.kubeconfig, namespace) as stage:
        control_plane.kubectl("run", "foreign", "--image=none:1", "-n", namespace)
        await stage.create(CLUSTERS, make_cluster())
        await stage.cluster("shared", is_ready)
        await stage.api.delete(CLUSTERS, namespace, "shared")
        await stage.gone(SERVICES, "shared-head-svc")
        await stage.pods("shared", lambda pods: not pods)
        assert await stage.api.get(PODS, namespace, "foreign") is not None
