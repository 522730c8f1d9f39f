"""KubeRay and the garbage collector: RayJobs from their creation to their end."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from pydantic import JsonValue

from tests.controller.api_server import ApiServer, Change
from tests.simulation.book import owner_of
from tests.simulation.clock import monotonic
from tests.simulation.heads import OVER, Head, Heads, Program
from tests.simulation.story import Story
from trainshed_api.json_object import JsonObject, as_object

_FINALIZER = "ray.io/rayjob-finalizer"
_POLL_SECONDS = 3.0
_GIVES_UP_SECONDS = 300.0
GRACE_SECONDS = 30.0
_LATE_SECONDS = 5.0


@dataclass
class KubeRay:
    """Args:
    make_program: what a RayJob runs.
    refuses: says by seed whether a RayJob fails KubeRay's validation.
    """

    server: ApiServer
    heads: Heads
    chance: random.Random
    story: Story
    make_program: Callable[[JsonObject], Program]

    def __post_init__(self) -> None:
        self.server.listeners.append(self._hear)
        self._tasks: set[asyncio.Task[None]] = set()
        self.may_refuse = True

    def _hear(self, change: Change) -> None:
        if change.plural == "rayjobs" and change.type == "ADDED":
            self._start(self._keep(change.raw))
            self._start(self._collect_late(as_object(change.raw["metadata"])))
        if change.plural == "trainingruns" and change.type == "DELETED":
            self._start(self._collect(str(as_object(change.raw["metadata"])["uid"])))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _collect(self, owner: str) -> None:
        """Delete what belonged to an object that is gone."""
        await asyncio.sleep(self.chance.uniform(0.1, 5.0))
        for raw in self.server.peek_all("rayjobs"):
            metadata = as_object(raw["metadata"])
            owners = metadata.get("ownerReferences")
            if isinstance(owners, list) and any(as_object(o).get("uid") == owner for o in owners):
                self.server.delete("rayjobs", str(metadata["name"]))

    async def _collect_late(self, metadata: JsonObject) -> None:
        """Delete what was made for an object that was gone by then, as the garbage collector does:
        it looks an owner up that it has not seen.
        """
        await asyncio.sleep(_LATE_SECONDS)
        owner, name = owner_of(metadata), str(metadata["name"])
        now = as_object((self.server.peek("rayjobs", name) or {}).get("metadata"))
        runs = self.server.peek_all("trainingruns")
        known = {str(as_object(run["metadata"])["uid"]) for run in runs}
        if owner and owner not in known and now.get("uid") == metadata["uid"]:
            self.server.delete("rayjobs", name)

    async def _keep(self, made: JsonObject) -> None:
        """Look at a RayJob again and again, until it is gone."""
        name, uid = (str(as_object(made["metadata"])[part]) for part in ("name", "uid"))
        await asyncio.sleep(self.chance.uniform(0.1, 3.0))
        slow = self.chance.choice((1.0, 10.0, 120.0))
        ready_at = monotonic() + self.chance.random() * slow
        unanswered_since: float | None = None
        refused = self.may_refuse and self.chance.random() < 0.02
        while True:
            raw = self.server.peek("rayjobs", name)
            if raw is None or as_object(raw["metadata"])["uid"] != uid:
                return
            status, spec = as_object(raw.get("status")), as_object(raw["spec"])
            if "deletionTimestamp" in as_object(raw["metadata"]):
                await self._let_go(name, spec, status)
                return
            state = status.get("jobDeploymentStatus", "")
            if refused:
                if state != "ValidationFailed":
                    self._write(name, jobDeploymentStatus="ValidationFailed", message="not valid")
            elif state == "":
                self._begin(name, raw)
            elif state == "Initializing":
                if monotonic() >= ready_at and self.heads.answering(_cluster(spec)):
                    self._write(name, jobDeploymentStatus="Running")
            elif state == "Running":
                head = self.heads.answering(_cluster(spec))
                if head:
                    unanswered_since = None
                    self._follow(name, raw, head)
                else:
                    unanswered_since = unanswered_since or monotonic()
                    if monotonic() - unanswered_since > _GIVES_UP_SECONDS:
                        self._write(
                            name,
                            jobDeploymentStatus="Failed",
                            reason="JobStatusCheckTimeoutExceeded",
                        )
            await asyncio.sleep(_POLL_SECONDS)

    def _begin(self, name: str, raw: JsonObject) -> None:
        spec = as_object(raw["spec"])
        held = as_object(raw["metadata"]) | {"finalizers": [_FINALIZER]}
        self.server.put("rayjobs", raw | {"metadata": held})
        self._write(
            name,
            jobDeploymentStatus="Initializing",
            rayClusterName=_cluster(spec),
            jobId=spec["jobId"],
        )

    def _follow(self, name: str, raw: JsonObject, head: Head) -> None:
        """Take over what Ray says; a head that does not know the job is given it."""
        spec, status = as_object(raw["spec"]), as_object(raw.get("status"))
        job_id = str(spec["jobId"])
        job = head.jobs.get(job_id)
        if job is None:
            self.story.tell("kuberay", f"submits {job_id}")
            head.submit(job_id, self.make_program(raw), self.chance.uniform(0.5, 5.0))
            return
        if job.status == status.get("jobStatus"):
            return
        over = {"SUCCEEDED": "Complete", "STOPPED": "Complete", "FAILED": "Failed"}
        state = over.get(job.status, "Running")
        self._write(name, jobStatus=job.status, jobDeploymentStatus=state, message=job.message)

    async def _let_go(self, name: str, spec: JsonObject, status: JsonObject) -> None:
        """Stop the job once, then let its object go whatever the answer was."""
        head = self.heads.answering(_cluster(spec))
        if head and status.get("jobStatus") not in OVER:
            await head.stop(str(spec["jobId"]), GRACE_SECONDS)
        await asyncio.sleep(self.chance.uniform(0.1, 2.0))
        raw = self.server.peek("rayjobs", name)
        if raw and "deletionTimestamp" in as_object(raw["metadata"]):
            self.server.drop("rayjobs", name)

    def _write(self, name: str, **status: JsonValue) -> None:
        raw = self.server.peek("rayjobs", name)
        if raw is None:
            return
        new = as_object(raw.get("status")) | status
        self.story.tell("kuberay", f"{name}: {' '.join(str(v) for v in status.values())}")
        self.server.put("rayjobs", raw | {"status": new})


def _cluster(spec: JsonObject) -> str:
    return str(as_object(spec.get("clusterSelector")).get("ray.io/cluster", ""))
