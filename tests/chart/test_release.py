"""A release on a real API server: installed, changed, taken back, removed, and found again."""

import base64
import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.chart.rendering import Renderer, at, rows, text
from tests.control_plane.plugin import ControlPlane

MAX_RELEASE_BYTES = 800_000  # a Secret takes 1 MiB
KINDS = (
    "rayclusters,persistentvolumeclaims,jobs,networkpolicies,serviceaccounts,services,pods,"
    "deployments,roles,rolebindings,configmaps"
)
# What every namespace has.
NOT_OURS = {"serviceaccount/default", "configmap/kube-root-ca.crt"}


@dataclass(frozen=True)
class Space:
    """A namespace into which this test installs."""

    control_plane: ControlPlane
    namespace: str
    chart: Path

    def helm(self, verb: str, release: str, *options: str) -> str:
        """Run helm with the chart where the verb takes one; KubeRay itself stays out."""
        chart = (str(self.chart), "--set=kuberay-operator.enabled=false")
        words = chart if verb in {"install", "upgrade"} else ()
        return self.control_plane.helm(verb, release, *words, "-n", self.namespace, *options)

    def uninstall(self, release: str) -> str:
        """Remove a release. Its hook is a Job, and nobody runs Jobs here."""
        return self.helm("uninstall", release, "--no-hooks")

    def kubectl(self, *words: str) -> str:
        return self.control_plane.kubectl(*words, "-n", self.namespace)

    def read(self, *words: str) -> JsonValue:
        document: JsonValue = json.loads(self.kubectl("get", *words, "-o", "json"))
        return document

    def sizes(self, cluster: str) -> dict[str, JsonValue]:
        """Return the number of workers of each group of a RayCluster."""
        groups = rows(self.read("raycluster", cluster), "spec", "workerGroupSpecs")
        return {text(group, "groupName"): group["replicas"] for group in groups}

    def names(self) -> set[str]:
        """Return what the release has made of these kinds."""
        everything = self.kubectl("get", KINDS, "-o", "name").split()
        return set(everything) - NOT_OURS


@pytest.fixture
def space(
    control_plane: ControlPlane,
    kuberay_crds: tuple[str, ...],
    namespace: str,
    renderer: Renderer,
) -> Space:
    return Space(control_plane, namespace, renderer.chart)


def test_a_release_lives_and_leaves_its_storage(space: Space) -> None:
    space.helm("install", "trainshed", "--set=groups.gpu.replicas=2")
    assert space.sizes("trainshed") == {"cpu": 1, "gpu": 2}
    before = space.names()

    space.helm("upgrade", "trainshed", "--set=groups.gpu.replicas=0", "--set=groups.cpu.replicas=3")
    assert space.sizes("trainshed") == {"cpu": 3, "gpu": 0}
    # Only what was asked for has changed: a Job of another name would run again.
    assert space.names() == before

    space.helm("rollback", "trainshed", "1")
    assert space.sizes("trainshed") == {"cpu": 1, "gpu": 2}
    assert space.names() == before

    kept = space.uninstall("trainshed")
    assert "trainshed-storage" in kept
    assert space.names() == {"persistentvolumeclaim/trainshed-storage"}


@pytest.mark.parametrize("later", ["trainshed", "blue"])
def test_a_later_release_finds_the_storage_again(space: Space, later: str) -> None:
    space.helm("install", "trainshed")
    claim = text(space.read("pvc", "trainshed-storage"), "metadata", "uid")
    space.uninstall("trainshed")

    space.helm("install", later)
    space.helm("upgrade", later, "--set=ray.openFiles=20000")

    assert text(space.read("pvc", "trainshed-storage"), "metadata", "uid") == claim
    name = later if later == "trainshed" else f"{later}-trainshed"
    head = at(space.read("raycluster", name), "spec", "headGroupSpec", "template", "spec")
    assert {"name": "storage", "persistentVolumeClaim": {"claimName": "trainshed-storage"}} in rows(
        head, "volumes"
    )

    space.uninstall(later)
    assert space.names() == {"persistentvolumeclaim/trainshed-storage"}


def test_the_next_commands_are_told(space: Space) -> None:
    told = space.helm("install", "blue", "--set=groups.gpu.replicas=0")

    for command in (
        "wait raycluster/blue-trainshed --for=jsonpath='{.status.state}'=ready",
        "port-forward service/blue-trainshed-head-svc 8265",
        "get secret blue-trainshed -o go-template='{{ .data.auth_token | base64decode }}'",
        "apply -f manifests/trainingrun.yaml",
    ):
        assert f"kubectl -n {space.namespace} {command}" in told


def test_two_releases_side_by_side_share_the_storage_and_nothing_else(space: Space) -> None:
    space.helm("install", "trainshed")
    first = space.names()
    space.helm("install", "blue")

    space.uninstall("blue")

    assert space.names() == first


def test_the_record_of_a_release_fits_where_helm_keeps_it(space: Space) -> None:
    space.helm("install", "trainshed")

    [secret] = rows(space.read("secrets", "-l", "owner=helm"), "items")
    stored = text(secret, "data", "release")
    record: JsonValue = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(stored))))

    assert len(stored) < MAX_RELEASE_BYTES
    assert text(record, "name") == "trainshed"
