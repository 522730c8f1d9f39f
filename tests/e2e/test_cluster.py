"""The cluster itself: it is a real one, up twice is harmless, down leaves nothing."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster.bare import BareCluster
from hack.cluster.image import write_image
from tests.e2e.pods import make_pod
from tests.e2e.running import NAME, ROOT, RunningCluster, wait_for
from tests.e2e.traces import read_traces

pytestmark = pytest.mark.e2e
KILLED = "e2e-killed"
COMMAND = (sys.executable, "-m", "hack.cluster")
only_bare = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="a cluster of processes needs Linux, root"
)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_restricted_pod_gets_a_gpu_and_a_volume(
    cluster: RunningCluster, e2e_namespace: str
) -> None:
    if not isinstance(cluster.cluster, BareCluster):
        pytest.skip("kind's node has no image that does nothing under a name known here")
    inside = ("--namespace", e2e_namespace)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    cluster.kubectl("create", "-f", "-", *inside, stdin=json.dumps(claim))
    pod = make_pod(
        "one",
        limits={"nvidia.com/gpu": "1"},
        mounts=[{"name": "data", "mountPath": "/data"}],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    )
    cluster.kubectl("create", "-f", "-", *inside, stdin=pod)

    cluster.kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s", *inside)

    assert "Bound" in cluster.kubectl("get", "pvc", "data", *inside)


@pytest.mark.parametrize("is_piped", [False, True], ids=["by name", "by standard input"])
def test_an_image_that_was_loaded_runs(
    is_piped: bool, cluster: RunningCluster, e2e_namespace: str, tmp_path: Path
) -> None:
    name = f"docker.io/local/loaded:{e2e_namespace}"
    program = shutil.which("catatonit")
    assert program, "the static program that the image is made of: apt-get install catatonit"
    archive = write_image(tmp_path / "a.tar", name, Path(program), ["/wait", "-P"])
    with archive.open("rb") as image:
        loaded = subprocess.run(
            [*COMMAND, f"--name={NAME}", "load", f"--archive={'-' if is_piped else archive}"],
            cwd=ROOT,
            stdin=image if is_piped else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (loaded.returncode, loaded.stderr) == (0, "")
    inside = ("--namespace", e2e_namespace)
    cluster.kubectl("create", "-f", "-", *inside, stdin=make_pod("loaded", image=name))

    cluster.kubectl("wait", "--for=condition=Ready", "pod/loaded", "--timeout=60s", *inside)


def test_a_pod_without_its_image_is_explained(cluster: RunningCluster, e2e_namespace: str) -> None:
    pod = make_pod("two", image="docker.io/local/absent:1")
    inside = ("--namespace", e2e_namespace)
    cluster.kubectl("create", "-f", "-", *inside, stdin=pod)

    assert wait_for(lambda: "ErrImageNeverPull" in cluster.diagnose(e2e_namespace))
    assert "make cluster-load" in cluster.diagnose(e2e_namespace)


def test_up_twice_changes_nothing(cluster: RunningCluster) -> None:
    before = cluster.kubectl("get", "node", "--output=jsonpath={.items[*].metadata.uid}")

    again = run(f"--name={NAME}", "up")

    assert (again.returncode, again.stderr) == (0, "")
    assert "was up already" in again.stdout
    assert before == cluster.kubectl("get", "node", "--output=jsonpath={.items[*].metadata.uid}")


@pytest.fixture
def killed() -> Iterator[str]:
    """The name of a cluster that nobody else has, and that is gone afterwards."""
    yield KILLED
    BareCluster(KILLED).down()


@only_bare
@pytest.mark.parametrize("moment", ["covers", "logs/etcd.log", "logs/kubelet.log", "ready"])
def test_down_leaves_nothing_even_of_an_up_that_was_killed(moment: str, killed: str) -> None:
    before = read_traces(killed)
    assert (before.processes, before.paths) == (frozenset(), frozenset())
    sign = BareCluster(killed).folder / moment
    with subprocess.Popen(
        [*COMMAND, f"--name={killed}", "--driver=bare", "up"], cwd=ROOT, start_new_session=True
    ) as up:
        assert wait_for(
            lambda: sign.exists() or up.poll() is not None, seconds=240, pause_seconds=0.02
        )
        up.kill()
    assert sign.exists(), "it did not come so far"

    down = run(f"--name={killed}", "--driver=bare", "down")

    assert (down.returncode, down.stderr) == (0, "")
    assert read_traces(killed) == before
