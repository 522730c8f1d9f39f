"""Runs on Pods without any shared volume: all that they leave lies in a bucket."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import yaml

from hack.cluster.bare import BareCluster
from hack.cluster.node import NODE_ADDRESS
from hack.cluster.processes import wait_until
from hack.tools.finder import find
from tests.e2e.bundle import MANIFEST, RELEASE, VALUES, Bundle
from tests.e2e.running import ROOT, RunningCluster
from tests.e2e.runs import Runs
from trainshed_api.progress import Started, parse_event

# The first test waits for the node and for the images on it.
pytestmark = pytest.mark.timeout(1200)

PORT = 7070
BUCKET = "team"
KEYS = {"AWS_ACCESS_KEY_ID": "trainshed", "AWS_SECRET_ACCESS_KEY": "of-a-test-alone"}
SECRET = "object-store"
# So long that its head can be lost in the middle: 22 steps each.
EPOCHS = 120
SAID = "by the code beside the file"
CODE = f"""
from trainshed.programs import vision

def train(config):
    print("{SAID}", flush=True)
    vision.train(config)
"""


@dataclass(frozen=True)
class Store:
    """An S3 server on the node.

    Args:
        cluster: whose network it is in.
        objects: of its bucket, as files.
    """

    cluster: RunningCluster
    objects: Path

    @property
    def endpoint(self) -> str:
        """Return where Pods find it."""
        return f"http://{NODE_ADDRESS}:{PORT}"

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment in which a user's program finds it."""
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1", **KEYS}

    def trainshed(self, *words: str) -> str:
        """Return what `trainshed WORDS` prints on a machine beside the cluster."""
        program = [sys.executable, "-c", "from trainshed.cli.main import main; main()"]
        return subprocess.run(
            [*self.cluster.prefix, *program, *words],
            cwd=ROOT,
            env={**self.cluster.environment, **self.environment},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def run(self, name: str) -> Path:
        """Return the only folder of a run of that name."""
        (found,) = self.objects.glob(f"trainshed/runs/*/{name}-*")
        return found


@pytest.fixture(scope="module")
def store(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A running S3 server with one bucket."""
    if not isinstance(cluster.cluster, BareCluster):
        pytest.skip("the server is put beside a node of processes alone")
    folder = tmp_path_factory.mktemp("store")
    (folder / BUCKET).mkdir()
    keys = {"ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"]}
    keys["ROOT_SECRET_KEY"] = KEYS["AWS_SECRET_ACCESS_KEY"]
    words = ("--quiet", "--region=us-east-1", f"--port={NODE_ADDRESS}:{PORT}", "posix")
    made = Store(cluster, folder / BUCKET)
    server = subprocess.Popen(
        [*cluster.prefix, find("versitygw"), *words, folder], env={**os.environ, **keys}
    )
    try:
        probe = f"import socket; socket.create_connection(('{NODE_ADDRESS}', {PORT}), 1)"
        connects = [*cluster.prefix, sys.executable, "-c", probe]
        wait_until(
            lambda: subprocess.run(connects, capture_output=True, check=False).returncode == 0,
            "the S3 server listens",
            needs=[],
            seconds=60,
        )
        yield made
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def in_bucket(bundle: Bundle, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The chart whose storage is the bucket, not yet installed."""
    values = yaml.safe_load(VALUES.read_text())
    values["storage"] = {
        "url": f"s3://{BUCKET}/trainshed",
        "endpoint": store.endpoint,
        "allowHttp": True,
        "region": "us-east-1",
        "credentialsSecret": SECRET,
    }
    file = tmp_path_factory.mktemp("values") / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return replace(bundle, values=file)


@pytest.fixture(scope="module")
def runs(in_bucket: Bundle) -> Iterator[Runs]:
    """The chart installed: Ray is ready, the digits are in the bucket."""
    in_bucket.uninstall(RELEASE)
    literals = [f"--from-literal={name}={value}" for name, value in KEYS.items()]
    in_bucket.kubectl("delete", "secret", SECRET, "--ignore-not-found")
    in_bucket.kubectl("create", "secret", "generic", SECRET, *literals)
    try:
        with in_bucket.times.measure("helm install with a bucket"):
            in_bucket.install(RELEASE)
            in_bucket.wait_for_ray(RELEASE)
            in_bucket.wait_for_digits()
        yield Runs(in_bucket, RELEASE)
    finally:
        in_bucket.kubectl("delete", "trun", "--all", "--timeout=3m")
        in_bucket.uninstall(RELEASE)
        in_bucket.kubectl("delete", "secret", SECRET, "--ignore-not-found")


def test_no_volume_is_asked_for(runs: Runs) -> None:
    assert runs.bundle.kubectl("get", "pvc", "-oname") == ""
    pods = json.loads(runs.bundle.kubectl("get", "pods", "-ojson"))["items"]
    volumes = [volume for pod in pods for volume in pod["spec"].get("volumes", [])]
    assert not [volume for volume in volumes if "persistentVolumeClaim" in volume]


def test_a_run_that_loses_its_head_goes_on_from_the_bucket(
    runs: Runs, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = yaml.safe_load(MANIFEST.read_text())
    run["spec"].update(epochs=EPOCHS, checkpoint={"everyEpochs": 10, "keep": 2})
    run["spec"].update(train="mine:train", code={"workingDir": "src"})
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "mine.py").write_text(CODE)
    (tmp_path / "kubectl").symlink_to(find("kubectl"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    with runs.bundle.times.measure("a run in a bucket that loses its head"):
        where = ("--namespace", runs.bundle.namespace, "--storage", f"s3://{BUCKET}/trainshed")
        store.trainshed("apply", str(tmp_path / "run.yaml"), *where, "--no-wait")
        runs.wait_for_step("digits", 400, seconds=300)
        runs.kill_pod(runs.head())
        runs.wait_for("Complete", "digits", minutes=10)

    folder = store.run("digits")
    claims = sorted(path.parent.name for path in folder.glob("attempts/*/claim"))
    assert claims == ["1", "2"]
    text = (folder / "attempts" / "2" / "metrics.jsonl").read_text()
    started = next(
        event for line in text.splitlines() if isinstance(event := parse_event(line), Started)
    )
    assert started.resumed_from
    assert (started.resumed_from.step or 0) >= 400
    assert runs.status("digits").result


def test_what_it_left_is_read_when_the_cluster_is_gone(runs: Runs, store: Store) -> None:
    folder = store.run("digits")
    address = f"s3://{BUCKET}/{folder.relative_to(store.objects)}"
    runs.bundle.kubectl("delete", "trun", "--all", "--timeout=3m")
    runs.bundle.uninstall(RELEASE)

    for attempt in ("1", "2"):
        said = store.trainshed("logs", address, "--attempt", attempt)
        # Before that is the driver's, to which Ray sends some of what workers print.
        of_workers = said.partition("==> workers/0.log <==")[2].split("==> workers/1.log <==")
        assert [SAID in each for each in of_workers] == [True, True]
    said = store.trainshed("report", address)
    assert f"{address}/report.html" in said
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")
    last = max(folder.glob("attempts/2/ray/checkpoint_0*"))
    assert torch.load(last / "model.pt", weights_only=True)
    assert store.trainshed("storage", "gc", f"s3://{BUCKET}/trainshed/runs")
