"""The stand-in makes of a RayCluster what KubeRay makes of it, on a real API server."""

import base64

from tests.control_plane.plugin import ControlPlane
from tests.kuberay.api import CLUSTERS, SERVICES
from tests.kuberay.builders import make_cluster, make_cluster_spec, make_group
from tests.kuberay.rayresources import RayCluster
from tests.kuberay.resources import Pod, Service
from tests.kuberay.stage import open_stage


def is_ready(cluster: RayCluster) -> bool:
    return cluster.status.state == "ready"


def kind_of(pod: Pod) -> str:
    return pod.metadata.labels["ray.io/node-type"]


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
