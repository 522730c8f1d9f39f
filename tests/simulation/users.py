"""People who create runs, suspend, resume, change and delete them, and touch what is not theirs."""

import asyncio
from collections.abc import Callable

from pydantic import JsonValue

from tests.builders import make_document
from tests.simulation.book import owner_of
from tests.simulation.clock import now
from tests.simulation.driver import Training
from tests.simulation.world import CORES, NUM_PODS, World
from trainshed_api.json_object import JsonObject, as_object
from trainshed_api.status import TrainingRunStatus

_MOST_RUNS = 12
_MANY_CORES = NUM_PODS * CORES + 1


class Users:
    """Args:
    world: what they act in.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._server = world.server
        self._chance = world.chance("users")
        self._count = 0

    async def act(self) -> None:
        """Do one thing after the other, until cancelled."""
        deeds: dict[Callable[[], None], int] = {
            self._create_some: 10, self._suspend: 3, self._resume: 4, self._change: 2,
            self._delete: 1, self._delete_a_job: 1, self._stop_a_job: 1, self._take_a_name: 1,
        }  # fmt: skip
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / 20.0))
            self._chance.choices(list(deeds), list(deeds.values()))[0]()

    def create(self, name: str, seconds: float = 120.0, **spec: JsonValue) -> str:
        """Create a run that trains for so long; return its uid."""
        document: JsonObject = make_document(**spec)
        document["metadata"] = {"name": name, "namespace": "team"}
        made = self._server.put("trainingruns", document)
        uid = str(as_object(made["metadata"])["uid"])
        self._world.trainings[uid] = Training(seconds)
        self._world.tally.runs += 1
        self._tell(f"creates {name} of {seconds:.0f} s: {spec}")
        return uid

    def leave(self) -> None:
        """Have everything go on that can, and take away what cannot."""
        for name in self._names():
            raw = as_object(self._server.peek("trainingruns", name))
            workers = as_object(as_object(raw["spec"]).get("workers"))
            if workers.get("count") == _MANY_CORES:
                self._server.delete("trainingruns", name)
            elif self._wants(name, "suspend"):
                self.set_spec(name, suspend=False)
        for raw in self._server.peek_all("rayjobs"):
            if not owner_of(as_object(raw["metadata"])):
                self._server.drop("rayjobs", str(as_object(raw["metadata"])["name"]))

    # ---------------------------------------------------------------- deeds

    def _create_some(self) -> None:
        ended = [name for name in self._names() if status_of(self._world, name).completion_time]
        for name in ended[:-3]:
            self._server.delete("trainingruns", name)
        if len(self._names()) >= _MOST_RUNS:
            return
        self._count += 1
        # A name comes again now and then, for a run that is another one.
        name = f"run{self._count % 40}"
        if name in self._names():
            return
        count, cpu = self._chance.choice(((1, 1), (1, 4), (2, 4), (3, 4), (4, 2), (1, 2)))
        if self._chance.random() < 0.03:
            count = _MANY_CORES
        spec: dict[str, JsonValue] = {
            "workers": {"count": count, "resources": {"cpu": cpu}},
            "priority": self._chance.choice((0, 0, 0, 5, -5)),
            "gracePeriodSeconds": self._chance.choice((5, 60)),
            "suspend": self._chance.random() < 0.05,
        }
        extra: dict[str, JsonValue] = {
            "activeDeadlineSeconds": 600,
            "stallDeadlineSeconds": self._chance.choice((120, 1800)),
            "provisioningDeadlineSeconds": 60,
            "ttlSecondsAfterFinished": 300,
            "failurePolicy": {"maxApplicationFailures": 2},
        }
        spec |= {field: extra[field] for field in extra if self._chance.random() < 0.2}
        self.create(name, self._chance.choice((30.0, 120.0, 600.0, 3000.0)), **spec)

    def _suspend(self) -> None:
        if name := self._any(lambda name: not self._wants(name, "suspend")):
            self._excuse(name, "suspended")
            self.set_spec(name, suspend=True)

    def _resume(self) -> None:
        if name := self._any(lambda name: self._wants(name, "suspend")):
            self.set_spec(name, suspend=False)

    def _change(self) -> None:
        """Change how many workers a run has that is at rest."""

        def rests(name: str) -> bool:
            status = status_of(self._world, name)
            return self._wants(name, "suspend") and status.phase == "Suspended" and _is_old(status)

        if name := self._any(rests):
            count = self._chance.randint(1, NUM_PODS)
            self.set_spec(name, workers={"count": count, "resources": {"cpu": CORES}})

    def _delete(self) -> None:
        if name := self._any(lambda _: True):
            self._tell(f"deletes {name}")
            self._excuse(name, "its run is deleted")
            self._server.delete("trainingruns", name)

    def _delete_a_job(self) -> None:
        jobs = self._server.names("rayjobs")
        if jobs:
            job = self._chance.choice(jobs)
            self._tell(f"deletes RayJob {job}")
            self._excuse(job.rpartition("-")[0], "its RayJob is deleted")
            self._server.delete("rayjobs", job)

    def _stop_a_job(self) -> None:
        head = self._world.heads.answering("trainshed")
        running = [name for name, job in head.jobs.items() if not job.is_over] if head else []
        if head and running:
            job_id = self._chance.choice(running)
            self._tell(f"stops {job_id} through Ray")
            self._excuse(job_id.split("-")[0], "stopped through Ray")
            self._world.start(head.stop(job_id, 30.0))

    def _take_a_name(self) -> None:
        """Create a RayJob that is nobody's under a name that a run may need."""
        name = f"run{self._chance.randint(0, 39)}-1"
        if name not in self._server.names("rayjobs"):
            self._tell(f"takes the name {name}")
            metadata: JsonObject = {"name": name, "namespace": "team"}
            spec: JsonObject = {"clusterSelector": {"ray.io/cluster": "other"}, "jobId": name}
            self._server.put("rayjobs", {"metadata": metadata, "spec": spec})

    # ---------------------------------------------------------------- their tools

    def set_spec(self, name: str, **spec: JsonValue) -> None:
        """Change fields of a run's spec."""
        raw = as_object(self._server.peek("trainingruns", name))
        self._tell(f"sets {spec} of {name}")
        self._server.put("trainingruns", raw | {"spec": as_object(raw["spec"]) | spec})

    def _wants(self, name: str, field: str) -> bool:
        raw = as_object(self._server.peek("trainingruns", name))
        return as_object(raw["spec"]).get(field) is True

    def _any(self, such: Callable[[str], bool]) -> str:
        """Return a run that has not ended."""
        names = [
            name
            for name in self._names()
            if not status_of(self._world, name).completion_time and such(name)
        ]
        return self._chance.choice(names) if names else ""

    def _names(self) -> list[str]:
        return self._server.names("trainingruns")

    def _excuse(self, run: str, why: str) -> None:
        self._world.excuse(run, why)

    def _tell(self, what: str) -> None:
        self._world.story.tell("user", what)


def status_of(world: World, name: str) -> TrainingRunStatus:
    """Return how a run does, as it is written down."""
    raw = as_object(world.server.peek("trainingruns", name))
    return TrainingRunStatus.model_validate(as_object(raw.get("status")))


def _is_old(status: TrainingRunStatus) -> bool:
    # Sooner the queue may still count the run as it was.
    return status.phase_time is not None and (now() - status.phase_time).total_seconds() > 5
