"""Everything between an API server and a test: the operator, a kubelet and dashboards."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from tests.kuberay.api import CLUSTERS, JOBS, PODS, Kind, KubeApi
from tests.kuberay.dashboards import Dashboards
from tests.kuberay.drivers import finish
from tests.kuberay.jobs_api import ChooseDriver, Driver, Submission
from tests.kuberay.kubelet import Kubelet
from tests.kuberay.names import LABEL_CLUSTER
from tests.kuberay.operator import run_operator
from tests.kuberay.rayresources import RayCluster, RayJob
from tests.kuberay.resources import Manifest, Pod
from tests.kuberay.settings import Settings, now

Found = TypeVar("Found")
_LOOK_SECONDS = 0.02
# Most things take milliseconds; the collector of garbage may have to learn of a kind first, and a
# busy machine stands still for seconds.
_LATEST_SECONDS = 120.0


def _as_it_is(found: object) -> bool:
    return True


def _succeed(submission: Submission) -> Driver:
    return finish("trained")


@dataclass
class Clock:
    """The time by which the operator counts its deadlines; a test does not wait for them."""

    ahead: timedelta = timedelta(0)

    def __call__(self) -> datetime:
        """Return the time."""
        return now() + self.ahead

    def put_forward(self, seconds: float) -> None:
        """Let so much time have passed."""
        self.ahead += timedelta(seconds=seconds)


class Stage:
    """One namespace with all that KubeRay and Ray do in it."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        dashboards: Dashboards,
        kubelet: Kubelet,
        settings: Settings,
    ) -> None:
        self.api, self.namespace = api, namespace
        self.dashboards, self.kubelet = dashboards, kubelet
        self.clock = Clock()
        self._settings = replace(settings, now=self.clock)
        self._operator: asyncio.Task[None] | None = None

    async def start_operator(self) -> None:
        """Start the operator; return when it knows what is there."""
        started = asyncio.Event()
        self._operator = asyncio.create_task(
            run_operator(self.api, self._settings, started=started)
        )
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait({self._operator, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._operator.done():
            self._operator.result()

    async def stop_operator(self) -> None:
        """Stop the operator, as a crash does: at whatever it is."""
        if self._operator is not None:
            self._operator.cancel()
            await asyncio.gather(self._operator, return_exceptions=True)
            self._operator = None

    async def create(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Create an object in the namespace."""
        return await self.api.create(kind, self.namespace, manifest)

    async def cluster(
        self, name: str, is_so: Callable[[RayCluster], bool] = _as_it_is
    ) -> RayCluster:
        """Wait until a RayCluster is as wanted, and return it."""

        async def look() -> RayCluster | None:
            found = await self.api.get(CLUSTERS, self.namespace, name)
            return RayCluster.model_validate(found) if found else None

        return await self._wait(f"RayCluster {name}", look, is_so)

    async def job(self, name: str, is_so: Callable[[RayJob], bool] = _as_it_is) -> RayJob:
        """Wait until a RayJob is as wanted, and return it."""

        async def look() -> RayJob | None:
            found = await self.api.get(JOBS, self.namespace, name)
            return RayJob.model_validate(found) if found else None

        return await self._wait(f"RayJob {name}", look, is_so)

    async def pods(self, cluster: str, is_so: Callable[[list[Pod]], bool] = _as_it_is) -> list[Pod]:
        """Wait until the Pods of a cluster are as wanted, and return them."""

        async def look() -> list[Pod]:
            labels = f"{LABEL_CLUSTER}={cluster}"
            found, _ = await self.api.list_all(PODS, self.namespace, labels=labels)
            return [Pod.model_validate(manifest) for manifest in found]

        return await self._wait(f"Pods of {cluster}", look, is_so)

    async def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        end = time.monotonic() + _LATEST_SECONDS
        while not is_so():
            self._check(what, end, None)
            await asyncio.sleep(_LOOK_SECONDS)

    async def gone(self, kind: Kind, name: str) -> None:
        """Wait until an object is gone."""
        end = time.monotonic() + _LATEST_SECONDS
        while (found := await self.api.get(kind, self.namespace, name)) is not None:
            self._check(f"{name} gone", end, found)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _wait(
        self,
        what: str,
        look: Callable[[], Awaitable[Found | None]],
        is_so: Callable[[Found], bool],
    ) -> Found:
        end = time.monotonic() + _LATEST_SECONDS
        while (found := await look()) is None or not is_so(found):
            self._check(what, end, found)
            await asyncio.sleep(_LOOK_SECONDS)
        return found

    def _check(self, what: str, end: float, last: object) -> None:
        """Fail the test where it is too late, or where the operator has ended by itself."""
        if self._operator is not None and self._operator.done():
            self._operator.result()
        assert time.monotonic() < end, f"{what}: last seen {last}"


@asynccontextmanager
async def open_stage(
    kubeconfig: Path,
    namespace: str,
    *,
    choose: ChooseDriver = _succeed,
    start_seconds: float = 0.0,
    poll_seconds: float = 0.05,
) -> AsyncIterator[Stage]:
    """Play KubeRay, a kubelet and Ray's dashboards in a namespace; `choose` names the drivers.

    What KubeRay does every 3 s is done 20 times a second; deadlines go by the stage's clock.
    """
    async with await KubeApi.connect(kubeconfig) as api, Dashboards(choose) as dashboards:
        settings = Settings(
            namespace=namespace,
            dashboard_url=dashboards.url_template,
            poll_seconds=poll_seconds,
            cluster_retry_seconds=poll_seconds,
        )
        kubelet = Kubelet(api, namespace, dashboards, start_seconds=start_seconds)
        stage = Stage(api, namespace, dashboards, kubelet, settings)
        tasks = [asyncio.create_task(kubelet.watch()), asyncio.create_task(kubelet.work())]
        try:
            await stage.start_operator()
            yield stage
        finally:
            await stage.stop_operator()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
