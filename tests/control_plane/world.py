"""A cluster without nodes: API server, KubeRay's stand-in, kubelet, Jobs API, controller."""

import asyncio
import contextlib
import copy
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from pydantic import JsonValue

from tests.control_plane.drivers import Drivers
from tests.control_plane.interference import Interference
from tests.control_plane.plugin import ROOT, ControlPlane
from tests.kuberay.api import CLUSTERS, Kind, KubeApi
from tests.kuberay.dashboards import Dashboards
from tests.kuberay.kubelet import Kubelet
from tests.kuberay.operator import run_operator
from tests.kuberay.settings import Settings
from trainshed_api import names
from trainshed_api.json_object import as_object
from trainshed_api.status import TrainingRunStatus

Object = dict[str, JsonValue]
RUNS = Kind(f"/apis/{names.API_VERSION}", names.PLURAL)

CLUSTER: Object = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "trainshed"},
    "spec": {
        "rayVersion": "2.60.0",
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0"},
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "ray-head", "image": "ray:1"}],
                }
            },
        },
        "workerGroupSpecs": [
            {
                "groupName": "cpu",
                "replicas": 2,
                "minReplicas": 0,
                "maxReplicas": 2,
                "labels": {"trainshed.dev/group": "cpu"},
                "rayStartParams": {},
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {
                                "name": "ray-worker",
                                "image": "ray:1",
                                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                            }
                        ],
                    }
                },
            }
        ],
    },
}


@dataclass
class World:
    """What a test of the controller acts on and looks at."""

    control_plane: ControlPlane
    # Looks often, and kubectl is a process each time.
    kube: KubeApi
    namespace: str
    drivers: Drivers
    dashboards: Dashboards
    kubelet: Kubelet
    folder: Path
    api: Interference
    environment: dict[str, str] = field(default_factory=dict)
    is_restarted: bool = False
    """Whether a controller that ends is started again, as a kubelet does."""
    _process: asyncio.subprocess.Process | None = None

    # ---------------------------------------------------------------- acting

    async def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Return what kubectl says in the namespace."""
        return await asyncio.to_thread(
            self.control_plane.kubectl, "-n", self.namespace, *words, stdin=stdin
        )

    async def create(self, document: Object) -> None:
        """Create an object."""
        await self.kubectl("create", "-f", "-", stdin=json.dumps(document))

    async def create_run(
        self, name: str = "digits", *, labels: JsonValue = None, **spec: JsonValue
    ) -> None:
        """Create a TrainingRun for one worker with one CPU, such as create_run(suspend=True)."""
        whole: Object = {"train": "my_module:train", "data": {"cpus": 1}, **spec}
        await self.create(
            {
                "apiVersion": "trainshed.dev/v1alpha1",
                "kind": "TrainingRun",
                "metadata": {"name": name, "labels": labels or {}},
                "spec": whole,
            }
        )

    async def patch_run(self, name: str = "digits", **spec: JsonValue) -> None:
        """Change fields of a run's spec."""
        await self.kubectl("patch", "trun", name, "--type=merge", "-p", json.dumps({"spec": spec}))

    async def start_controller(self) -> None:
        """Start the controller; wait until it has listed everything."""
        await self._start_process()
        url = f"http://127.0.0.1:{self.environment['TRAINSHED_CONTROLLER_HEALTH_PORT']}/readyz"

        async def is_ready() -> bool:
            assert self._process, f"the controller ended:\n{self.controller_log()[-3000:]}"
            await self._look_after_controller()
            async with aiohttp.ClientSession() as session:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(url) as answer:
                        return answer.status == 200
            return False

        await until(is_ready, 200, self.controller_log)

    async def _start_process(self) -> None:
        with (self.folder / "controller.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "trainshed_controller",
                env=self.environment, stdout=log, stderr=log, cwd=ROOT,
            )  # fmt: skip

    async def _look_after_controller(self) -> None:
        if self._process is None or self._process.returncode is None:
            return
        if not self.is_restarted:
            raise AssertionError(f"the controller ended:\n{self.controller_log()[-3000:]}")
        await self._start_process()

    async def kill_controller(self) -> None:
        """Kill the controller as a lost node does."""
        await self._stop_controller(signal.SIGKILL)

    async def killed(self, at_most_seconds: float) -> None:
        """Wait until the controller was killed; not every run writes as much, so not for ever."""
        end = time.monotonic() + at_most_seconds
        while self._process is not None and time.monotonic() < end:
            await asyncio.sleep(0.1)
        await self.kill_controller()

    async def stop_controller(self) -> int:
        """Stop the controller as Kubernetes does; return its exit code."""
        return await self._stop_controller(signal.SIGTERM)

    async def _stop_controller(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        code = await asyncio.wait_for(self._process.wait(), 60)
        self._process = None
        return code

    # ---------------------------------------------------------------- looking

    def controller_log(self) -> str:
        """Return all that the controller logged."""
        file = self.folder / "controller.log"
        return file.read_text() if file.exists() else ""

    async def get(self, kind: Kind, name: str) -> Object | None:
        """Return an object; None where there is none."""
        return await self.kube.get(kind, self.namespace, name)

    async def names(self, kind: Kind) -> list[str]:
        """Return the names of all objects of a kind."""
        found, _ = await self.kube.list_all(kind, self.namespace)
        return [str(as_object(item["metadata"])["name"]) for item in found]

    async def status(self, name: str = "digits") -> TrainingRunStatus:
        """Return how a run does; empty where nobody said so yet, or it is gone."""
        found = await self.get(RUNS, name)
        return TrainingRunStatus.model_validate((found or {}).get("status") or {})

    async def phase(self, phase: str, name: str = "digits", seconds: float = 180) -> None:
        """Wait for a phase."""

        async def is_so() -> bool:
            await self._look_after_controller()
            return (await self.status(name)).phase == phase

        await until(is_so, seconds, lambda: f"want {phase}\n{self.controller_log()[-4000:]}")


async def until(
    is_so: Callable[[], object], seconds: float, explain: Callable[[], str] = str
) -> None:
    """Wait until something holds; fail with what is known when it does not come."""
    end = time.monotonic() + seconds
    while True:
        answer = is_so()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {explain()}")
        await asyncio.sleep(0.1)


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port


@contextlib.asynccontextmanager
async def make_world(
    control_plane: ControlPlane, namespace: str, identity: Path, folder: Path
) -> AsyncIterator[World]:
    """Play a cluster with the RayCluster `trainshed` of two Pods with a CPU each.

    identity: a kubeconfig of the controller's ServiceAccount.
    """
    drivers = Drivers()
    progress = free_port()
    async with contextlib.AsyncExitStack() as stack:
        dashboards = await stack.enter_async_context(Dashboards(drivers.choose))
        api = await stack.enter_async_context(await KubeApi.connect(control_plane.kubeconfig))
        kubelet = Kubelet(api, namespace, dashboards)
        settings = Settings(
            namespace=namespace,
            dashboard_url=dashboards.url_template,
            poll_seconds=0.3,
            cluster_retry_seconds=0.3,
            concurrency=4,
        )
        tasks = [
            asyncio.create_task(run_operator(api, settings)),
            asyncio.create_task(kubelet.watch()),
            asyncio.create_task(kubelet.work()),
        ]
        between = await stack.enter_async_context(Interference(identity))
        world = World(
            control_plane,
            api,
            namespace,
            drivers,
            dashboards,
            kubelet,
            folder,
            between,
            environment={
                **os.environ,
                "KUBECONFIG": str(between.write_kubeconfig(folder / "kubeconfig")),
                "TRAINSHED_CONTROLLER_LOG_FORMAT": "text",
                "TRAINSHED_CONTROLLER_NAMESPACE": namespace,
                "TRAINSHED_CONTROLLER_HOST": "127.0.0.1",
                "TRAINSHED_CONTROLLER_PROGRESS_PORT": str(progress),
                "TRAINSHED_CONTROLLER_PROGRESS_URL": f"http://127.0.0.1:{progress}",
                "TRAINSHED_CONTROLLER_HEALTH_PORT": str(free_port()),
                "TRAINSHED_CONTROLLER_DASHBOARD_URL": dashboards.url_template,
                "TRAINSHED_CONTROLLER_PROGRESS_INTERVAL_SECONDS": "0.3",
                "TRAINSHED_CONTROLLER_CLASSES_FILE": str(_write_classes(folder)),
            },
        )
        await world.create(CLUSTER)
        between.kill = world.kill_controller
        await until(lambda: is_cluster_ready(world), 90)
        try:
            await world.start_controller()
            yield world
        finally:
            await world.kill_controller()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert between.refused() == [], "the chart's Role gives all that the controller asks for"


def _write_classes(folder: Path) -> Path:
    """Write the class `default`: the shared cluster's spec without a worker."""
    spec = copy.deepcopy(CLUSTER["spec"])
    assert isinstance(spec, dict)
    groups = spec["workerGroupSpecs"]
    assert isinstance(groups, list)
    for group in groups:
        assert isinstance(group, dict)
        group |= {"replicas": 0, "maxReplicas": 4}
    file = folder / "classes.yaml"
    file.write_text(json.dumps({"default": spec}))
    return file


async def is_cluster_ready(world: World, name: str = "trainshed") -> bool:
    """Say whether KubeRay's stand-in calls the RayCluster ready."""
    found = await world.get(CLUSTERS, name)
    status = (found or {}).get("status")
    return isinstance(status, dict) and status.get("state") == "ready"
