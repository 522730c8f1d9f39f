"""All players together, and the phases in which they act: storms, and calms in which all settles."""

import asyncio
import logging
import random
from dataclasses import dataclass

from pydantic import JsonValue

from tests.controller.api_server import ApiServer
from tests.simulation.book import Book, InternalErrors
from tests.simulation.clock import monotonic, now
from tests.simulation.driver import FATES, WELL, Driver, Fate, Training
from tests.simulation.heads import Head, Heads, Program
from tests.simulation.kuberay import KubeRay
from tests.simulation.port import NOBODY, Said
from tests.simulation.process import KEY, Process, Surroundings
from tests.simulation.story import Story
from tests.simulation.wire import CALM, Weather, Wire
from trainshed_api.json_object import JsonObject, as_object
from trainshed_controller.model import Settings
from trainshed_controller.render import progress_path, progress_token

NUM_PODS, CORES = 3, 4
SETTINGS = Settings(
    progress_url="http://controller:8081",
    progress_interval_seconds=15.0,
)
_FATES: dict[Fate, int] = dict.fromkeys(FATES, 3) | {"ends well": 60, "does not say its end": 8}


@dataclass
class Tally:
    """What happened so far."""

    runs: int = 0
    faults: int = 0
    restarts: int = 0


class World:
    """Args:
    seed: of all chance in it.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.story = Story(monotonic)
        self.server = ApiServer(now)
        self.heads = Heads()
        self.weather = CALM
        self.is_stormy = False
        self.tally = Tally()
        self.trainings: dict[str, Training] = {}
        self.fates: dict[str, Fate] = {}
        self.process: Process | None = None
        self._serving: asyncio.Task[str] | None = None
        self._next_downtime: float | None = None
        self.book = Book(NUM_PODS * CORES, can_ask=self._can_ask)
        self.server.listeners.append(self.book.hear)
        self.kuberay = KubeRay(
            self.server, self.heads, self.chance("kuberay"), self.story, self.make_driver
        )
        self._make_cluster()

    def chance(self, name: str) -> random.Random:
        """Return the chance of one player: what others do does not change it."""
        return random.Random(f"{self._seed}/{name}")

    # ---------------------------------------------------------------- the shared cluster

    def _make_cluster(self) -> None:
        group: JsonObject = {
            "groupName": "cpu",
            "replicas": NUM_PODS,
            "template": {
                "spec": {"containers": [{"name": "ray-worker",
                                         "resources": {"limits": {"cpu": str(CORES)}}}]}
            },
        }  # fmt: skip
        metadata: JsonObject = {"name": "trainshed", "namespace": "team"}
        self.server.put(
            "rayclusters",
            {"metadata": metadata, "spec": {"workerGroupSpecs": [group]},
             "status": {"state": "ready"}},
        )  # fmt: skip
        for index in range(NUM_PODS):
            self.server.put("pods", _pod(f"trainshed-cpu-worker-{index}", "worker", "cpu", "c0"))
        self.put_head("trainshed-head-0", "c0")

    def put_head(self, name: str, container: str) -> None:
        """Let a container of the head run."""
        self.server.put("pods", _pod(name, "head", "headgroup", container))
        self.heads.of["trainshed"] = Head(f"{name}/{container}")

    def _can_ask(self) -> bool:
        head = self.heads.answering("trainshed")
        return head is not None

    # ---------------------------------------------------------------- drivers

    def make_driver(self, job: JsonObject) -> Program:
        """Return the program of a RayJob."""
        metadata = as_object(job["metadata"])
        labels, owners = as_object(metadata.get("labels")), metadata.get("ownerReferences")
        name, number = str(labels["trainshed.dev/run"]), int(str(labels["trainshed.dev/attempt"]))
        assert isinstance(owners, list)
        uid = str(as_object(owners[0])["uid"])
        path = progress_path("team", name, uid, number)
        token = progress_token(KEY, "team", name, uid, number)

        async def post(body: str) -> Said:
            return await self._post(path, token, body)

        fate = self.fates.get(uid) or self._draw_fate(uid, number)
        driver = Driver(
            number, fate, self.trainings[uid], self.chance(f"driver/{uid}/{number}"), post
        )
        if len(self.book.drivers.setdefault(str(metadata["name"]), [])):
            driver.excuse = "it is given to Ray again"
        self.book.drivers[str(metadata["name"])].append(driver)
        self.story.tell("driver", f"{metadata['name']}: {fate}")
        return driver

    def _draw_fate(self, uid: str, number: int) -> Fate:
        if not self.is_stormy:
            return "ends well"
        chance = self.chance(f"fate/{uid}/{number}")
        return chance.choices(list(_FATES), list(_FATES.values()))[0]

    async def _post(self, path: str, token: str, body: str) -> Said:
        await asyncio.sleep(0.01)
        if self.process is None:
            return NOBODY
        return await self.process.port.post(path, token, body)

    # ---------------------------------------------------------------- the controller

    async def serve(self) -> None:
        """Keep a controller's process running, until cancelled."""
        chance = self.chance("process")
        around = Surroundings(
            self.server, SETTINGS, self.heads, self.chance("feeds"), lambda: self.is_stormy
        )
        log = logging.getLogger("trainshed.controller")
        errors = InternalErrors(self.book)
        log.addHandler(errors)
        try:
            while True:
                wire = Wire(self.server, self.chance(f"wire/{self.tally.restarts}"),
                            lambda: self.weather, self._crash, self._tell_fault)  # fmt: skip
                self.process = Process(around, wire)
                self._serving = asyncio.create_task(self.process.run())
                try:
                    self.book.blame(f"the kubelet ended it: {await self._serving}")
                except asyncio.CancelledError:
                    if self._next_downtime is None:
                        raise
                except Exception as error:
                    self.book.blame(f"the controller died of {error!r}")
                self.process, self._next_downtime = None, None
                self.tally.restarts += 1
                down = chance.choice((0.5, 5.0, 60.0, 60.0, 2000.0)) if self.is_stormy else 1.0
                self.story.tell("controller", f"is away for {down:g} s")
                await asyncio.sleep(down)
        finally:
            log.removeHandler(errors)

    def _crash(self) -> None:
        assert self._serving
        self._next_downtime = 0.0
        self._serving.cancel()

    def _tell_fault(self, fault: str) -> None:
        self.tally.faults += 1
        self.story.tell("api server", fault)


def _pod(name: str, kind: str, group: str, container: str) -> JsonObject:
    labels: dict[str, JsonValue] = {
        "ray.io/cluster": "trainshed",
        "ray.io/node-type": kind,
        "ray.io/group": group,
        "ray.io/is-ray-node": "yes",
    }
    running: JsonObject = {
        "name": "ray", "containerID": f"{name}/{container}", "state": {"running": {}},
    }  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": "team", "labels": labels},
        "spec": {"nodeName": "node", "containers": [{"name": "ray"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [running],
        },
    }
