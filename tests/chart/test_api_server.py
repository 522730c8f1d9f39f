"""What a real API server says of the chart: it takes every object, and restricted every Pod."""

import copy
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hack.chart.helm import ROOT
from hack.cluster.failure import ClusterError
from tests.chart.pods import expand_pods
from tests.chart.rendering import VALUES_FILES, Object, Renderer, of_kind, rows, table, text
from tests.control_plane.plugin import ControlPlane, wait_until_served
from tests.kuberay.rayresources import RayCluster
from tests.kuberay.validation import cluster_fault

MONITORING_CRDS = Path(__file__).parent / "monitoring_crds.yaml"
# What examples name and somebody else makes: without them the API server refuses their Pods.
NEIGHBOURS: list[Object] = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "training"},
        "value": 1000,
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    },
]


def documents(objects: Sequence[Mapping[str, object]]) -> str:
    return yaml.safe_dump_all(objects)


@dataclass(frozen=True)
class Place:
    """A namespace that enforces `restricted`, on a server that knows every kind of the chart."""

    control_plane: ControlPlane
    namespace: str

    def try_out(self, objects: Sequence[Mapping[str, object]]) -> int:
        """Return how many objects the server would make. Raises ClusterError with its reasons."""
        answer = self.control_plane.kubectl(
            *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
            stdin=documents(objects),
        )
        return answer.count("(server dry run)")


@pytest.fixture(scope="module")
def place(
    control_plane: ControlPlane, kuberay_crds: tuple[str, ...], renderer: Renderer
) -> Iterator[Place]:
    name = f"chart-{uuid.uuid4().hex[:8]}"
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    # The API server looks for the account of a Pod before it says anything else of it.
    accounts = of_kind(renderer.render(namespace=name), "ServiceAccount")
    crds: list[Object] = list(yaml.safe_load_all(MONITORING_CRDS.read_text()))
    control_plane.kubectl(
        "apply", "-f", "-", stdin=documents([space, *accounts, *crds, *NEIGHBOURS])
    )
    wait_until_served(control_plane, *(text(crd, "metadata", "name") for crd in crds))
    yield Place(control_plane, name)
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("name", VALUES_FILES)
def test_server_takes_every_object_and_every_pod_that_comes_of_them(
    place: Place, renderer: Renderer, name: str
) -> None:
    objects = renderer.render(VALUES_FILES[name], namespace=place.namespace)
    # The account is there already.
    rest = [thing for thing in objects if thing["kind"] not in {"Pod", "ServiceAccount"}]
    pods = expand_pods(objects)

    assert place.try_out([*rest, *pods]) == len(rest) + len(pods)


def test_server_refuses_a_field_that_kuberay_does_not_have(
    place: Place, renderer: Renderer
) -> None:
    """The test above would be worth nothing if it did not."""
    [cluster] = of_kind(renderer.render(namespace=place.namespace), "RayCluster")
    wrong = copy.deepcopy(cluster)
    table(wrong, "spec", "headGroupSpec")["rayStartParam"] = {}

    with pytest.raises(ClusterError, match=r"spec\.headGroupSpec\.rayStartParam"):
        place.try_out([wrong])


def test_restricted_refuses_a_head_that_may_do_more(place: Place, renderer: Renderer) -> None:
    """The test above would be worth nothing if it did not."""
    pods = expand_pods(renderer.render(namespace=place.namespace))
    [head] = [pod for pod in pods if text(pod, "metadata", "name") == "trainshed-head-0"]
    [container] = rows(head, "spec", "containers")
    del table(container, "securityContext")["capabilities"]

    with pytest.raises(ClusterError, match="violates PodSecurity"):
        place.try_out([head])


@pytest.mark.parametrize("name", VALUES_FILES)
def test_kuberay_finds_no_fault_with_the_cluster(renderer: Renderer, name: str) -> None:
    [manifest] = of_kind(renderer.render(VALUES_FILES[name]), "RayCluster")
    cluster = RayCluster.model_validate(manifest)
    # Three things that KubeRay does and the stand-in, whose rules these are, does not.
    cluster.spec.tls_options = None
    cluster.spec.upgrade_strategy = None
    cluster.spec.enable_in_tree_autoscaling = False

    assert cluster_fault(cluster) is None


def test_the_manifest_without_helm_is_taken(
    control_plane: ControlPlane, kuberay_crds: tuple[str, ...]
) -> None:
    [namespace, *rest] = yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text())
    control_plane.kubectl("apply", "-f", "-", stdin=documents([namespace]))

    answer = control_plane.kubectl(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), stdin=documents(rest)
    )

    assert namespace["kind"] == "Namespace"
    assert answer.count("(server dry run)") == len(rest)
