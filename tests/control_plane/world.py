"""What a test of the controller acts on and looks at: a namespace, and who plays in it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import JsonValue

from tests.control_plane.controllers import Controller
from tests.control_plane.drivers import Drivers
from tests.control_plane.interference import Interference
from tests.control_plane.objects import RUNS, Object, make_run
from tests.control_plane.plugin import ControlPlane
from tests.kuberay.api import CLUSTERS, Kind, KubeApi
from tests.kuberay.kubelet import Kubelet
from trainshed_api.json_object import as_object
from trainshed_api.status import TrainingRunStatus

# Nobody waits for as long on an idle machine; on a busy one everything takes its time.
_PATIENCE_SECONDS = 150

T = TypeVar("T")


@dataclass
class World:
    """A cluster without nodes: API server, KubeRay's stand-in, kubelet, Jobs API, controller."""

    control_plane: ControlPlane
    kube: KubeApi
    namespace: str
    drivers: Drivers
    kubelet: Kubelet
    api: Interference
    environment: dict[str, str]
    """What a controller is told by variables."""
    begin: Callable[[], Awaitable[Controller]]
    """Begins the controller's next life."""
    players: list[asyncio.Task[None]] = field(default_factory=list)
    """Who plays KubeRay and the kubelet, to the end of the test."""
    _controller: Controller | None = None
    _is_ending: bool = False
    _logs: list[Callable[[], str]] = field(default_factory=list)

    # ---------------------------------------------------------------- acting

    async def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Return what kubectl says in the namespace; a process each time, for what users type."""
        return await asyncio.to_thread(
            self.control_plane.kubectl, "-n", self.namespace, *words, stdin=stdin
        )

    async def create(self, kind: Kind, document: Object) -> None:
        """Create an object; a field that nobody knows is an error."""
        await self.kube.create(kind, self.namespace, document, is_strict=True)

    async def create_run(
        self, name: str = "digits", *, labels: JsonValue = None, **spec: JsonValue
    ) -> None:
        """Create a TrainingRun for one worker with one CPU, such as create_run(suspend=True)."""
        await self.create(RUNS, make_run(name, labels=labels, **spec))

    async def patch(self, kind: Kind, name: str, **spec: JsonValue) -> None:
        """Change fields of an object's spec."""
        await self.kube.patch(kind, self.namespace, name, {"spec": spec})

    async def delete(self, kind: Kind, name: str) -> None:
        """Delete an object and wait until it is gone."""
        await self.kube.delete(kind, self.namespace, name)
        await self.gone(kind, name)

    async def start_controller(self) -> None:
        """Start the controller; wait until it has listed everything."""
        await self._begin()

        async def is_ready() -> bool:
            return bool(self._controller and await self._controller.is_ready())

        await self.until(is_ready)

    async def _begin(self) -> None:
        self.api.pick_up()
        self._controller = await self.begin()
        self._logs.append(self._controller.log)

    async def _look_after_controller(self) -> None:
        if self._is_ending or self._controller is None or not self._controller.has_ended():
            return
        raise AssertionError(f"the controller ended:\n{self.controller_log()[-3000:]}")

    async def kill_controller(self) -> None:
        """Kill the controller as a lost node does."""
        if self._controller is not None:
            await self._end(self._controller, self._controller.kill)

    async def stop_controller(self) -> int:
        """Stop the controller as Kubernetes does; return its exit code."""
        assert self._controller
        return await self._end(self._controller, self._controller.stop)

    async def _end(self, controller: Controller, end: Callable[[], Awaitable[T]]) -> T:
        self._is_ending = True
        try:
            return await end()
        finally:
            # Two may end the same one at once, and meanwhile there may be another.
            if self._controller is controller:
                self._controller, self._is_ending = None, False

    # ---------------------------------------------------------------- looking

    def has_controller(self) -> bool:
        """Say whether a controller was started that nobody killed or stopped since."""
        return self._controller is not None

    def controller_log(self) -> str:
        """Return all that the controller logged, in all its lives."""
        return "\n".join(read() for read in self._logs)

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

    # ---------------------------------------------------------------- waiting

    async def until(self, is_so: Callable[[], object], want: str = "") -> None:
        """Wait until something holds; a controller that ends meanwhile is seen to."""

        async def look() -> object:
            for player in self.players:
                if player.done():
                    player.result()  # a stand-in that gave up is no fault of the controller's
            await self._look_after_controller()
            answer = is_so()
            return await answer if isinstance(answer, Awaitable) else answer

        await until(look, _PATIENCE_SECONDS, lambda: f"{want}\n{self.controller_log()[-4000:]}")

    async def phase(self, phase: str, name: str = "digits") -> None:
        """Wait for a phase."""

        async def is_so() -> bool:
            return (await self.status(name)).phase == phase

        await self.until(is_so, f"expected {name} to be {phase}")

    async def holds(self, kind: Kind, *names: str) -> None:
        """Wait until there are these objects of a kind and no others."""

        async def is_so() -> bool:
            return sorted(await self.names(kind)) == sorted(names)

        await self.until(is_so, f"expected of {kind.plural} {', '.join(names) or 'none'}")

    async def gone(self, kind: Kind, name: str) -> None:
        """Wait until there is no such object."""

        async def is_so() -> bool:
            return await self.get(kind, name) is None

        await self.until(is_so, f"expected {name} to be gone")

    async def reason(self, condition: str, reason: str, name: str = "digits") -> None:
        """Wait until a condition of a run has a reason."""

        async def is_so() -> bool:
            found = [c for c in (await self.status(name)).conditions if c.type == condition]
            return any(c.reason == reason for c in found)

        await self.until(is_so, f"expected {condition} of {name} for {reason}")


async def until(
    is_so: Callable[[], object], seconds: float, explain: Callable[[], str] = str
) -> None:
    """Wait until something holds; fail with what is known when it does not come."""
    end, pause = time.monotonic() + seconds, 0.02
    while True:
        answer = is_so()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {explain()}")
        await asyncio.sleep(pause)
        pause = min(1.2 * pause, 0.2)


async def is_cluster_ready(world: World, name: str = "trainshed") -> bool:
    """Say whether KubeRay's stand-in calls the RayCluster ready."""
    found = await world.get(CLUSTERS, name)
    return as_object((found or {}).get("status")).get("state") == "ready"
