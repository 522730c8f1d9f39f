"""All that there is besides the controller, and the controller's processes one after the other."""

import asyncio
import logging
import random
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.controller.api_server import Answer, ApiServer, Request
from tests.simulation.book import Book, InternalErrors, owner_of
from tests.simulation.clock import monotonic, now
from tests.simulation.driver import FATES, Driver, Fate, Training
from tests.simulation.heads import Head, Heads, Program
from tests.simulation.kuberay import KubeRay
from tests.simulation.port import NOBODY, Said
from tests.simulation.process import KEY, Process, Surroundings
from tests.simulation.story import Story
from tests.simulation.wire import CALM, Wire
from trainshed_api.json_object import JsonObject, as_object
from trainshed_controller.decide import decide
from trainshed_controller.model import Settings
from trainshed_controller.render import progress_path, progress_token

if TYPE_CHECKING:
    from pydantic import JsonValue

    from trainshed_controller.controller import Decide

NUM_PODS, CORES = 3, 4
CLUSTER = "trainshed"
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
        # What becomes of the drivers of a run, by uid, where that is no chance.
        self.fates: dict[str, Fate] = {}
        self.process: Process | None = None
        self.decide: Decide = decide
        self._serving: asyncio.Task[str] | None = None
        self._answers: list[tuple[str, str, Answer]] = []
        self._crashed = False
        self._num_pods = self._num_containers = 0
        self._tasks: set[asyncio.Task[None]] = set()
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
        metadata: JsonObject = {"name": CLUSTER, "namespace": "team"}
        self.server.put(
            "rayclusters",
            {"metadata": metadata, "spec": {"workerGroupSpecs": [group]},
             "status": {"state": "ready"}},
        )  # fmt: skip
        for index in range(NUM_PODS):
            self.server.put("pods", _pod(f"trainshed-cpu-worker-{index}", "worker", "cpu", "c0"))
        self.put_head(another_pod=True)

    def put_head(self, *, another_pod: bool) -> None:
        """Let a container of the head run: a new one of the same Pod, or another Pod's."""
        if another_pod:
            self.server.drop("pods", f"head-{self._num_pods}")
            self._num_pods += 1
        name = f"head-{self._num_pods}"
        self._num_containers += 1
        container = f"c{self._num_containers}"
        known = as_object(self.server.peek("pods", name))
        self.server.put("pods", known | _pod(name, "head", "headgroup", container))
        self.heads.of[CLUSTER] = Head(container, monotonic())

    def kill_head(self, why: str) -> None:
        """End the head's container, and every driver with it."""
        for drivers in self.book.drivers.values():
            for driver in drivers:
                driver.excuse = driver.excuse or "its head died"
        self.heads.of[CLUSTER].die()
        name = f"head-{self._num_pods}"
        pod = as_object(self.server.peek("pods", name))
        self.server.put("pods", pod | {"status": _ended(name, why)})

    def _can_ask(self) -> bool:
        head = self.heads.answering(CLUSTER)
        return head is not None and monotonic() - head.answers_since > 120.0

    # ---------------------------------------------------------------- drivers

    def make_driver(self, job: JsonObject) -> Program:
        """Return the program of a RayJob."""
        metadata = as_object(job["metadata"])
        labels = as_object(metadata.get("labels"))
        name, number = str(labels["trainshed.dev/run"]), int(str(labels["trainshed.dev/attempt"]))
        uid = owner_of(metadata)
        path = progress_path("team", name, uid, number)
        token = progress_token(KEY, "team", name, uid, number)

        async def post(body: str) -> Said:
            return await self._post(path, token, body)

        fate = self._draw_fate(uid, number)
        chance = self.chance(f"driver/{uid}/{number}")
        training = self.trainings.setdefault(uid, Training(60.0))
        driver = Driver(number, fate, training, chance, post)
        earlier = self.book.drivers.setdefault((uid, number), [])
        driver.excuse = self._excuse_of(name, job) or ("is given to Ray again" if earlier else "")
        earlier.append(driver)
        self.story.tell("driver", f"{metadata['name']}: {fate} {driver.excuse}")
        return driver

    def _excuse_of(self, name: str, job: JsonObject) -> str:
        """Return why a driver may be ended at any time."""
        run = as_object(self.server.peek("trainingruns", name))
        spec = as_object(run.get("spec"))
        if not run or as_object(run["metadata"])["uid"] != owner_of(as_object(job["metadata"])):
            return "its run is gone"
        if "deletionTimestamp" in as_object(job["metadata"]):
            return "its RayJob is going"
        if spec.get("suspend") is True:
            return "suspended"
        return "has a deadline" if "activeDeadlineSeconds" in spec else ""

    def _draw_fate(self, uid: str, number: int) -> Fate:
        if uid in self.fates:
            return self.fates[uid]
        if not self.is_stormy:
            return "ends well"
        chance = self.chance(f"fate/{uid}/{number}")
        return chance.choices(list(_FATES), list(_FATES.values()))[0]

    async def _post(self, path: str, token: str, body: str) -> Said:
        await asyncio.sleep(0.01)
        if self.process is None:
            return NOBODY
        return await self.process.port.post(path, token, body)

    def excuse(self, run: str, why: str) -> None:
        """Let the controller end what runs of a run."""
        raw = as_object(self.server.peek("trainingruns", run))
        uid = as_object(raw.get("metadata")).get("uid")
        for (owner, _), drivers in self.book.drivers.items():
            for driver in drivers if owner == uid else ():
                driver.excuse = driver.excuse or why

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Have something done beside all else."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def training_of(self, name: str) -> Training | None:
        """Return how far a run is."""
        raw = as_object(self.server.peek("trainingruns", name))
        return self.trainings.get(str(as_object(raw.get("metadata")).get("uid")))

    def has_driver(self, uid: str) -> bool:
        """Say whether a driver of a run is alive."""
        return any(
            driver.alive
            for (owner, _), drivers in self.book.drivers.items()
            if owner == uid
            for driver in drivers
        )

    def answer_once(self, method: str, ending: str, answer: Answer) -> None:
        """Have the controller's next such request answered so, and do nothing."""
        self._answers.append((method, ending, answer))

    async def _carry(self, wire: Wire, request: Request) -> Answer:
        for planned in self._answers:
            method, ending, answer = planned
            if request.method == method and request.path.endswith(ending):
                self._answers.remove(planned)
                return answer
        return await wire.carry(request)

    def end_hung(self) -> None:
        """Kill what would hang for ever and say nothing, as somebody does in the end."""
        for job in self.heads.of[CLUSTER].jobs.values():
            program = job.program
            if isinstance(program, Driver) and program.fate == "hangs" and program.alive:
                job.kill("FAILED")

    def live_jobs(self) -> list[str]:
        """Return the RayJobs of runs that have not ended."""
        over = ("Complete", "Failed", "ValidationFailed")
        return [
            str(as_object(raw["metadata"])["name"])
            for raw in self.server.peek_all("rayjobs")
            if as_object(raw.get("status")).get("jobDeploymentStatus") not in over
        ]

    def clean_up(self) -> None:
        """Forget what is over, so that a long play needs no more memory than a short one."""
        self.book.drivers.clear()
        self.heads.of[CLUSTER].jobs.clear()
        for name in self.server.names("events"):  # a real API server keeps them for an hour
            self.server.drop("events", name)
        there = {str(as_object(raw["metadata"])["uid"])
                 for raw in self.server.peek_all("trainingruns")}  # fmt: skip
        self.trainings = {uid: told for uid, told in self.trainings.items() if uid in there}

    # ---------------------------------------------------------------- the controller

    async def serve(self) -> None:
        """Keep a controller's process running, until cancelled."""
        chance = self.chance("process")
        around = Surroundings(
            self.server, SETTINGS, self.heads, self.chance("feeds"), lambda: self.is_stormy,
            self.decide,
        )  # fmt: skip
        log = logging.getLogger("trainshed")
        errors = InternalErrors(self.book)
        log.addHandler(errors)
        try:
            while True:
                wire = Wire(self.server, self.chance(f"wire/{self.tally.restarts}"),
                            lambda: self.weather, self.crash, self._tell_fault)  # fmt: skip
                self.process = Process(around, partial(self._carry, wire))
                self._serving = asyncio.create_task(self.process.run())
                try:
                    self.book.blame(f"the kubelet ended it: {await self._serving}")
                except asyncio.CancelledError:
                    if not self._crashed:
                        raise
                except Exception as error:
                    self.book.blame(f"the controller died of {error!r}")
                self.process, self._crashed = None, False
                self.tally.restarts += 1
                down = chance.choice((0.5, 5.0, 60.0, 60.0, 2000.0)) if self.is_stormy else 1.0
                self.story.tell("controller", f"is away for {down:g} s")
                await asyncio.sleep(down)
        finally:
            log.removeHandler(errors)

    def crash(self) -> None:
        """Have the controller's process end at once, and another one begin."""
        assert self._serving
        self._crashed = True
        self._serving.cancel()

    def _tell_fault(self, fault: str) -> None:
        self.tally.faults += 1
        self.story.tell("api server", fault)


def _pod(name: str, kind: str, group: str, container: str) -> JsonObject:
    labels: dict[str, JsonValue] = {
        "ray.io/cluster": CLUSTER,
        "ray.io/node-type": kind,
        "ray.io/group": group,
        "ray.io/is-ray-node": "yes",
    }
    running: JsonObject = {
        "name": "ray", "containerID": f"{name}/{container}", "state": {"running": {}},
    }  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": "team", "labels": labels, "uid": f"uid-{name}"},
        "spec": {"nodeName": "node", "containers": [{"name": "ray"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [running],
        },
    }


def _ended(name: str, why: str) -> JsonObject:
    state: JsonObject = {"terminated": {"reason": why, "exitCode": 1}}
    ended: JsonObject = {"name": "ray", "containerID": f"{name}/c0", "state": state}
    return {"phase": "Running", "conditions": [], "containerStatuses": [ended]}
