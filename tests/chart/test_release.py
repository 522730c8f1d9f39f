"""A release on a real API server: installed, changed, taken back, removed, and found again."""

import base64
import gzip
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import JsonValue

from hack.cluster.failure import ClusterError
from tests.chart.rendering import Renderer, at, rows, table, text
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
        values = "kuberay-operator.enabled=false,storage.claim.accessModes={ReadWriteMany}"
        chart = (str(self.chart), f"--set={values}")
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
    space.helm("install", "blue", "--set=controller.enabled=false")

    space.uninstall("blue")

    assert space.names() == first


def test_a_second_controller_in_a_namespace_is_refused(space: Space) -> None:
    space.helm("install", "trainshed")
    first = space.names()

    with pytest.raises(ClusterError) as refusal:
        space.helm("install", "blue")

    assert 'has the controller of release "trainshed"' in str(refusal.value)
    assert "Use another namespace, or set controller.enabled=false" in str(refusal.value)
    assert space.names() == first
    # An upgrade of the first is none.
    space.helm("upgrade", "trainshed", "--set=ray.openFiles=20000")


def test_what_only_looks_like_another_controller_can_be_deleted(space: Space) -> None:
    space.kubectl("create", "configmap", "trainshed.dev", "--from-literal=release=x")

    with pytest.raises(ClusterError, match="delete the ConfigMap"):
        space.helm("install", "trainshed")

    space.kubectl("delete", "configmap", "trainshed.dev")
    space.helm("install", "trainshed")


def test_of_two_controllers_that_come_at_once_helm_refuses_one(
    space: Space, tmp_path: Path
) -> None:
    """Neither saw the other when it was rendered: here one does not look."""
    blind = tmp_path / "chart"
    shutil.copytree(space.chart, blind)
    checks = blind / "templates" / "_checks.tpl"
    looked = 'lookup "v1" "ConfigMap" .Release.Namespace "trainshed.dev"'
    assert looked in checks.read_text()
    checks.write_text(checks.read_text().replace(looked, "dict"))
    space.helm("install", "trainshed")

    with pytest.raises(ClusterError, match=r"ConfigMap \\?\"trainshed.dev\\?\" in namespace"):
        Space(space.control_plane, space.namespace, blind).helm("install", "blue")


def test_controllers_of_two_namespaces_do_not_meet(space: Space) -> None:
    other = Space(space.control_plane, f"{space.namespace}-b", space.chart)
    space.helm("install", "trainshed")

    other.helm("install", "trainshed", "--create-namespace")

    assert "configmap/trainshed.dev" in other.names()
    other.uninstall("trainshed")


def test_the_key_that_the_controller_filled_in_outlives_every_revision(space: Space) -> None:
    """What a manifest once had, and the next has not, Helm deletes."""
    key = base64.b64encode(b"k" * 32).decode()
    space.helm("install", "trainshed")
    data = json.dumps({"data": {"key": key}})
    space.kubectl("patch", "secret", "trainshed-progress-key", "--type=merge", "-p", data)

    space.helm("upgrade", "trainshed", "--set=ray.openFiles=20000")
    space.helm("rollback", "trainshed", "1")

    assert table(space.read("secret", "trainshed-progress-key"), "data") == {"key": key}


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("accessModes={ReadWriteOnce}", 'has ["ReadWriteMany"]; expected the same'),
        ("storageClass=fast", 'has "slow"; expected the same'),
    ],
)
def test_what_cannot_be_changed_of_a_claim_is_refused(space: Space, value: str, want: str) -> None:
    slow = "--set=storage.claim.storageClass=slow"
    space.helm("install", "trainshed", slow)

    with pytest.raises(ClusterError) as refusal:
        space.helm("upgrade", "trainshed", slow, f"--set=storage.claim.{value}")

    assert want in str(refusal.value)
    space.helm("upgrade", "trainshed", slow)
    # A claim of another release is used as it is.
    space.uninstall("trainshed")
    space.helm("install", "blue", f"--set=storage.claim.{value}")


def test_the_record_of_a_release_fits_where_helm_keeps_it(space: Space) -> None:
    space.helm("install", "trainshed")

    [secret] = rows(space.read("secrets", "-l", "owner=helm"), "items")
    stored = text(secret, "data", "release")
    record: JsonValue = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(stored))))

    assert len(stored) < MAX_RELEASE_BYTES
    assert text(record, "name") == "trainshed"
