"""The control plane of the tests is a real one: it admits, defaults, authorizes and collects."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hack.cluster.client import Client
from hack.cluster.control_plane import answers
from hack.cluster.failure import ClusterError
from tests.control_plane.plugin import ROOT, ControlPlane


def wait_for(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.2)
    return is_so()


def test_server_says_the_version_that_is_pinned(control_plane: ControlPlane) -> None:
    answer = json.loads(control_plane.kubectl("version", "-o", "json"))
    assert answer["serverVersion"]["gitVersion"].startswith("v1.35.")
    assert answer["clientVersion"]["minor"] in {"34", "35", "36"}


def test_a_namespace_is_fresh_and_can_hold_pods(
    control_plane: ControlPlane, namespace: str
) -> None:
    assert control_plane.kubectl("get", "pods", "-n", namespace, "-o", "name") == ""

    control_plane.kubectl("run", "one", "--image=none:1", "-n", namespace)

    assert control_plane.kubectl("get", "pods", "-n", namespace, "-o", "name") == "pod/one\n"


def test_restricted_namespaces_refuse_what_is_not(
    control_plane: ControlPlane, namespace: str
) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    control_plane.kubectl("label", "namespace", namespace, label)

    with pytest.raises(ClusterError, match="violates PodSecurity"):
        control_plane.kubectl("run", "one", "--image=none:1", "-n", namespace)


def test_a_user_has_no_rights_but_its_own(control_plane: ControlPlane, namespace: str) -> None:
    jane = control_plane.user_kubeconfig("jane", groups=["readers"])
    user = Client(jane)
    with pytest.raises(ClusterError, match='User "jane" cannot list resource "pods"'):
        user.kubectl("get", "pods", "-n", namespace)

    grant = ("--clusterrole=view", "--group=readers", "-n", namespace)
    control_plane.kubectl("create", "rolebinding", "readers", *grant)

    # The server learns of new rights by a watch of its own.
    assert wait_for(lambda: answers(user, "get", "pods", "-n", namespace))
    assert not answers(user, "get", "pods", "-n", "default")


def test_what_is_owned_goes_with_its_owner(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.kubectl("create", "configmap", "owner", "-n", namespace)
    owner = json.loads(
        control_plane.kubectl("get", "configmap", "owner", "-n", namespace, "-o", "json")
    )["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned", "ownerReferences": [reference]},
    }
    control_plane.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(owned))

    control_plane.kubectl("delete", "configmap", "owner", "-n", namespace)

    ask = ("get", "configmap", "owned", "-n", namespace, "--ignore-not-found")
    assert wait_for(lambda: control_plane.kubectl(*ask) == "")


def test_kuberays_resources_are_pruned_and_checked(
    control_plane: ControlPlane, namespace: str, kuberay_crds: tuple[str, ...]
) -> None:
    assert kuberay_crds == ("rayclusters.ray.io", "rayjobs.ray.io")
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "one", "namespace": namespace},
        "spec": {"entrypont": "python"},
    }
    with pytest.raises(ClusterError, match="entrypont"):
        control_plane.kubectl(
            *("create", "--dry-run=server", "--validate=strict", "-f", "-"), stdin=json.dumps(job)
        )


def test_helm_installs_into_it(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: small, version: 1.0.0}\n")
    (chart / "templates" / "one.yaml").write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n"
    )

    control_plane.helm("install", "small", str(chart), "-n", namespace)

    assert "small-1.0.0" in control_plane.helm("list", "-n", namespace)
    assert control_plane.kubectl("get", "configmap", "one", "-n", namespace, "-o", "name")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties one process to another")
def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from hack.cluster.processes import Launcher
started = Launcher(Path({str(tmp_path)!r}), is_tied=True).start("sleep", ["/bin/sleep", "60"])
print(started.process.pid, flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().decode().strip()
        assert wait_for(lambda: (child / "cmdline").read_bytes().startswith(b"/bin/sleep"))
        parent.kill()

    assert wait_for(lambda: not child.exists())
