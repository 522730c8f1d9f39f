"""The bundle on a cluster, as users have it: helm, kubectl, a port-forward, Ray's own clients."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.control_plane.plugin import find_kuberay_crds
from tests.e2e.running import ROOT, RunningCluster, wait_for
from tests.e2e.times import Times

CHART = ROOT / "charts" / "trainshed"
VALUES = ROOT / "tests" / "e2e" / "values.yaml"
REQUEST = ROOT / "tests" / "e2e" / "request.py"
# Where there is the real operator, both are named or lie here, and the stand-in stays out.
OPERATOR_CHART = CHART / "charts" / "kuberay-operator-1.7.0.tgz"
OPERATOR_IMAGE_VARIABLE = "TRAINSHED_KUBERAY_IMAGE"
ADDRESS = "http://localhost:8265"
RELEASE = "trainshed"
NAMESPACE = "trainshed"
MANIFEST = ROOT / "manifests" / "trainingrun.yaml"


@dataclass(frozen=True)
class Answer:
    """What a request was answered with."""

    status: int
    body: str


@dataclass(frozen=True)
class Bundle:
    """The chart on a cluster, in a namespace of its own."""

    cluster: RunningCluster
    chart: Path
    namespace: str
    times: Times
    values: Path = VALUES

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what kubectl printed about the namespace."""
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, stdin=stdin)

    def helm(self, verb: str, *arguments: str) -> str:
        """Return what helm printed about the namespace."""
        return self.cluster.helm(verb, "--namespace", self.namespace, *arguments)

    def install(self, release: str, *arguments: str) -> None:
        """Install the chart and wait until it is ready."""
        wait = ("--wait", "--timeout=10m")
        self.helm("install", release, str(self.chart), f"--values={self.values}", *wait, *arguments)

    def uninstall(self, release: str) -> None:
        """Uninstall a release if it is there, and wait until its last Pod is gone."""
        self.helm("uninstall", release, "--ignore-not-found", "--wait", "--timeout=5m")
        assert wait_for(lambda: self.kubectl("get", "pods", "-oname") == "", 180)

    def wait_for_ray(self, name: str) -> None:
        """Wait, with the command that the chart's notes give, until a RayCluster is ready."""
        ready = "--for=jsonpath={.status.state}=ready"
        self.kubectl("wait", f"raycluster/{name}", ready, "--timeout=10m")

    def wait_for_digits(self) -> None:
        """Wait until the data of the quick start is on the storage."""
        job = ("job", "-lapp.kubernetes.io/component=digits")
        self.kubectl("wait", *job, "--for=condition=Complete", "--timeout=5m")

    def ready_pods(self, group: str, cluster: str = "") -> list[str]:
        """Return the names of the Pods of a group of Ray that are ready, of one cluster or all."""
        labels = f"ray.io/group={group}" + (f",ray.io/cluster={cluster}" if cluster else "")
        pods = json.loads(self.kubectl("get", "pods", f"-l{labels}", "-ojson"))["items"]
        return [
            pod["metadata"]["name"]
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
            and {"Ready": "True"}.items()
            <= {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}.items()
        ]

    def ready_pod(self, group: str, cluster: str = "") -> str:
        """Return the name of a group's only ready Pod; a probe may have failed once just now."""
        assert wait_for(lambda: len(self.ready_pods(group, cluster)) == 1), group
        return self.ready_pods(group, cluster)[0]

    def controller_address(self) -> str:
        """Return the IP of the controller's Pod."""
        label = "-lapp.kubernetes.io/component=controller"
        return self.kubectl("get", "pod", label, "-ojsonpath={.items[0].status.podIP}")

    def objects(self) -> set[str]:
        """Return kind and name of every object in the namespace, but for events."""
        kinds = self.cluster.kubectl("api-resources", "--verbs=list", "--namespaced", "-oname")
        listed = sorted(set(kinds.split()) - {"events", "events.events.k8s.io"})
        return set(self.kubectl("get", ",".join(listed), "-oname", "--ignore-not-found").split())

    def token(self, name: str) -> str:
        """Return the token of a RayCluster."""
        encoded = self.kubectl("get", "secret", name, "-ojsonpath={.data.auth_token}")
        return base64.b64decode(encoded).decode()

    @contextmanager
    def dashboard(self, name: str) -> Iterator["Dashboard"]:
        """Forward the port of a RayCluster's dashboard, and speak to it with its token."""
        to = ("--namespace", self.namespace, f"service/{name}-head-svc", "8265")
        with self.cluster.start("kubectl", "port-forward", *to) as forward:
            try:
                assert forward.stdout is not None
                said = forward.stdout.readline()
                assert said.startswith("Forwarding from"), said
                yield Dashboard(self.cluster, self.token(name))
            finally:
                forward.terminate()


@dataclass(frozen=True)
class Dashboard:
    """Ray's dashboard behind a port-forward, and the clients that speak to it."""

    cluster: RunningCluster
    token: str

    def ask(
        self, method: str, path: str, *, body: object = None, token: str | None = None
    ) -> Answer:
        """Return what a request is answered with, by default with the right token."""
        answer = subprocess.run(
            [*self.cluster.prefix, sys.executable, str(REQUEST), method, f"{ADDRESS}{path}"],
            input=json.dumps(body) if body is not None else "",
            env={**os.environ, "TOKEN": self.token if token is None else token},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        status, _, rest = answer.partition("\n")
        return Answer(int(status), rest)

    def run(
        self, command: Sequence[str | Path], seconds: float = 900
    ) -> subprocess.CompletedProcess[str]:
        """Run a program that speaks to the dashboard as Ray's own programs are told to."""
        environment = {
            "RAY_ADDRESS": ADDRESS,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
        }
        return subprocess.run(
            [*self.cluster.prefix, *map(str, command)],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )


def uses_real_operator() -> bool:
    """Return whether KubeRay's own chart and image are there.

    Raises UsageError where one of them is: the stand-in must not take its place in silence.
    """
    image = os.environ.get(OPERATOR_IMAGE_VARIABLE)
    if image and not OPERATOR_CHART.is_file():
        raise pytest.UsageError(f"{OPERATOR_IMAGE_VARIABLE} is set, and {OPERATOR_CHART} is absent")
    return bool(image)


def prepare_bundle(cluster: RunningCluster, name: str, folder: Path, times: Times) -> Bundle:
    """Give a cluster of that name the images, and return the chart, not yet installed."""
    chart = prepare_chart(folder)
    with times.measure("images built and given to the node"):
        give_images(cluster, name)
    cluster.create_restricted_namespace(NAMESPACE)
    return Bundle(cluster, chart, NAMESPACE, times)


def prepare_chart(folder: Path, source: Path = CHART) -> Path:
    """Return a copy of a chart with KubeRay's own beside it, or the stand-in's."""
    chart = shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("charts"))
    if uses_real_operator():
        (chart / "charts").mkdir()
        shutil.copy(OPERATOR_CHART, chart / "charts")
    else:
        crds = find_kuberay_crds()[0].parent
        place = [sys.executable, "-m", "tests.kuberay.chart", str(chart)]
        subprocess.run([*place, f"--crds={crds}"], cwd=ROOT, check=True, timeout=60)
    return chart


def give_images(cluster: RunningCluster, name: str, *others: str) -> None:
    """Build the images that changed, and give the node what it lacks; others: beside the usual."""
    names = ["app", "controller", *others]
    if uses_real_operator():
        cluster.load(Path(os.environ[OPERATOR_IMAGE_VARIABLE]))
    else:
        names.append("kuberay")
    for verb in (["build"], ["load", f"--cluster={name}"]):
        command = [sys.executable, "-m", "hack.images", *verb, *names]
        subprocess.run(command, cwd=ROOT, check=True, timeout=3000)
