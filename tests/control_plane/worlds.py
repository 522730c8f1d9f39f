"""Makes worlds on one API server: each a namespace of its own, as many side by side as wanted."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from hack.cluster.ports import pick_ports
from tests.control_plane.controllers import Controller, ControllerProcess, ControllerThread
from tests.control_plane.drivers import Drivers
from tests.control_plane.interference import Interference
from tests.control_plane.objects import ACCOUNT_KINDS, CLUSTER, NAMESPACES, make_classes
from tests.control_plane.plugin import ControlPlane
from tests.control_plane.world import World, is_cluster_ready
from tests.kuberay.api import CLUSTERS, Kind, KubeApi
from tests.kuberay.dashboards import Dashboards
from tests.kuberay.kubelet import Kubelet
from tests.kuberay.operator import run_operator
from tests.kuberay.settings import Settings
from trainshed_api.json_object import as_object
from trainshed_controller.settings import Timings, read_platform

ACCOUNT = "trainshed-controller"
# Stands in what is rendered once for all namespaces.
ANY_NAMESPACE = "any-namespace"
_REVIEWS = Kind("/apis/authorization.k8s.io/v1", "subjectaccessreviews")
_TIMINGS = Timings()

Act = Callable[[World], Awaitable[object]]


@dataclass(frozen=True)
class Worlds:
    """Makes worlds.

    rendered: the controller's ServiceAccount with exactly the chart's rights, in ANY_NAMESPACE.
    """

    control_plane: ControlPlane
    rendered: str
    folder: Path

    async def side_by_side(
        self, acts: Mapping[str, Act], timings: Timings = _TIMINGS, *, are_processes: bool = False
    ) -> None:
        """Do each in a world of its own, all at once; fail with all that failed, by name."""

        async def do(name: str, act: Act) -> Exception | None:
            try:
                async with self.open(timings, is_process=are_processes) as world:
                    await act(world)
            except Exception as error:  # told below, with all others
                error.add_note(f"this was: {name}")
                return error
            return None

        found = await asyncio.gather(*(do(name, act) for name, act in acts.items()))
        failed = {name: error for name, error in zip(acts, found, strict=True) if error}
        if failed:
            raise ExceptionGroup(f"not so: {', '.join(failed)}", [*failed.values()])

    @contextlib.asynccontextmanager
    async def open(
        self, timings: Timings = _TIMINGS, *, is_process: bool = False
    ) -> AsyncIterator[World]:
        """Play a cluster with the RayCluster `trainshed` of two Pods with a CPU each.

        is_process: whether the controller is a process of its own instead of a thread of ours.
        """
        namespace = f"test-{uuid.uuid4().hex[:8]}"
        folder = self.folder / namespace
        folder.mkdir()
        drivers = Drivers()
        async with contextlib.AsyncExitStack() as stack:
            kube = await stack.enter_async_context(
                await KubeApi.connect(self.control_plane.kubeconfig)
            )
            # It goes with the API server: its end would cost as much as a test.
            await kube.create(NAMESPACES, "", {"metadata": {"name": namespace}})
            identity = await self._create_account(kube, namespace)
            between = await stack.enter_async_context(Interference(identity))
            dashboards = await stack.enter_async_context(Dashboards(drivers.choose))
            kubelet = Kubelet(kube, namespace, dashboards)
            environment = _environment(namespace, folder, between, dashboards)

            async def begin() -> Controller:
                if is_process:
                    return await ControllerProcess.start(environment, folder)
                platform = replace(read_platform(environment), timings=timings)
                return ControllerThread(platform, between.hang_up)

            world = World(
                self.control_plane, kube, namespace, drivers, kubelet, between, environment, begin
            )
            between.kill = world.kill_controller
            playing = _playing(kube, namespace, kubelet, dashboards)
            world.players = await stack.enter_async_context(playing)
            await world.create(CLUSTERS, CLUSTER)
            await world.until(lambda: is_cluster_ready(world), "expected a RayCluster")
            await world.until(
                lambda: _may_begin(kube, namespace), "expected the rights to be known"
            )
            try:
                await world.start_controller()
                yield world
            finally:
                await world.kill_controller()
            assert between.refused() == [], "the chart's Role gives all that is asked for"

    async def _create_account(self, kube: KubeApi, namespace: str) -> Path:
        """Create the controller's ServiceAccount; return a kubeconfig of it."""
        for document in yaml.safe_load_all(self.rendered.replace(ANY_NAMESPACE, namespace)):
            if document:
                await kube.create(ACCOUNT_KINDS[document["kind"]], namespace, document)
        return self.control_plane.user_kubeconfig(
            f"system:serviceaccount:{namespace}:{ACCOUNT}", groups=["system:serviceaccounts"]
        )


@contextlib.asynccontextmanager
async def _playing(
    kube: KubeApi, namespace: str, kubelet: Kubelet, dashboards: Dashboards
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Have somebody play KubeRay and the kubelet; yield who does."""
    settings = Settings(
        namespace=namespace,
        dashboard_url=dashboards.url_template,
        poll_seconds=0.2,
        cluster_retry_seconds=0.1,
        concurrency=4,
    )
    tasks = [
        asyncio.create_task(run_operator(kube, settings)),
        asyncio.create_task(kubelet.watch()),
        asyncio.create_task(kubelet.work()),
    ]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _environment(
    namespace: str, folder: Path, between: Interference, dashboards: Dashboards
) -> dict[str, str]:
    classes = folder / "classes.yaml"
    classes.write_text(json.dumps(make_classes()))
    progress, health = pick_ports(2)
    told = {
        "NAMESPACE": namespace,
        "HOST": "127.0.0.1",
        "PROGRESS_PORT": str(progress),
        "PROGRESS_URL": f"http://127.0.0.1:{progress}",
        "HEALTH_PORT": str(health),
        "DASHBOARD_URL": dashboards.url_template,
        "PROGRESS_INTERVAL_SECONDS": "0.3",
        "CLASSES_FILE": str(classes),
        "SHARED_CLUSTERS": "wide",
    }
    kubeconfig = between.write_kubeconfig(folder / "kubeconfig")
    named = {f"TRAINSHED_CONTROLLER_{name}": text for name, text in told.items()}
    return {"KUBECONFIG": str(kubeconfig), **named}


async def _may_begin(kube: KubeApi, namespace: str) -> bool:
    """Say whether the API server has heard of both Roles: it follows them by a watch of its own."""
    asked = (
        {"verb": "list", "group": "trainshed.dev", "resource": "trainingruns"},
        {"verb": "get", "resource": "secrets", "name": "trainshed-progress-key"},
    )
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    for attributes in asked:
        review = {"user": user, "resourceAttributes": {"namespace": namespace, **attributes}}
        answer = await kube.create(_REVIEWS, "", {"spec": review})  # type: ignore[dict-item]  # JSON
        if as_object(answer["status"]).get("allowed") is not True:
            return False
    return True
