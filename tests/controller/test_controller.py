"""One turn of a key after the other, without any watch: what a write of ours has to set going."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pydantic import JsonValue

from tests.builders import make_document
from tests.controller.api_server import ApiServer
from tests.controller.builders_view import SETTINGS, make_cluster, make_head, make_worker
from trainshed_api.json_object import as_object
from trainshed_api.snapshot import Snapshot
from trainshed_api.status import TrainingRunStatus
from trainshed_controller.cache import Cache
from trainshed_controller.cluster import ClusterError
from trainshed_controller.controller import Controller
from trainshed_controller.events import EventPoster
from trainshed_controller.jobs import JobsApi
from trainshed_controller.metrics import Metrics
from trainshed_controller.model import Key
from trainshed_controller.observe import Observer
from trainshed_controller.prober import Prober
from trainshed_controller.queue import WorkQueue
from trainshed_controller.views import read_job, read_run


@dataclass
class Office:
    """A controller at work that hears nothing but the answers to its own requests."""

    server: ApiServer
    cache: Cache
    observer: Observer
    queue: WorkQueue

    def create_run(self, name: str, **spec: JsonValue) -> None:
        """Create a run, and let the controller know of it."""
        document = make_document(**spec)
        document["metadata"] = {"name": name, "namespace": "team"}
        self.cache.runs.put(read_run(self.server.put("trainingruns", document)))

    def tell_of_job(self, name: str, **status: JsonValue) -> None:
        """Change a RayJob's status as KubeRay does, and let the controller know of it."""
        raw = as_object(self.server.get("rayjobs", name))
        self.cache.jobs.put(read_job(self.server.put("rayjobs", raw | {"status": status})))

    def hear(self, name: str, said: Snapshot) -> None:
        """Have the controller know what a run's driver said."""
        run = as_object(self.server.get("trainingruns", name))
        self.observer.snapshots.put(str(as_object(run["metadata"])["uid"]), said)

    def status(self, name: str) -> TrainingRunStatus:
        """Return how a run does, as it is written down."""
        run = as_object(self.server.get("trainingruns", name))
        return TrainingRunStatus.model_validate(as_object(run.get("status")))

    async def has_jobs(self, *names: str) -> None:
        """Wait until the API server has these RayJobs; a controller that needs long fails."""
        async with asyncio.timeout(10):
            while self.server.names("rayjobs") != sorted(names):
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def working() -> AsyncIterator[Office]:
    """A controller at work beside a shared cluster with one worker."""
    server, cache = ApiServer(), Cache(SETTINGS)
    cache.clusters.put(make_cluster())
    for pod in (make_head(), make_worker()):
        cache.pods.put(pod)
    cluster, jobs, metrics = server.connect(), JobsApi("", None), Metrics(cache)

    def look(key: Key) -> None:
        queue.add(key)

    prober = Prober(jobs, look)
    observer = Observer(cache, cluster, prober, SETTINGS)
    events = EventPoster(cluster.post_event)
    controller = Controller(cache, cluster, observer, events, SETTINGS, metrics, b"key")
    queue = WorkQueue(controller.work, (ClusterError,), controller.trouble)
    controller.queue = queue
    task = asyncio.create_task(queue.run(4))
    try:
        yield Office(server, cache, observer, queue)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await prober.close()
        await jobs.close()


async def test_a_run_that_ends_lets_the_next_one_in_without_being_told() -> None:
    async with working() as office:
        for name in ("first", "second"):
            office.create_run(name, workers={"count": 1, "resources": {"cpu": 4}})
            office.queue.add(Key("run", "team", name))
        office.queue.add(Key("cluster", "team", "trainshed"))
        await office.has_jobs("first-1")

        office.hear("first", Snapshot(attempt=1, time=0.0, state="Ended", exit_code=0))
        office.tell_of_job("first-1", jobStatus="SUCCEEDED", jobDeploymentStatus="Complete")
        office.queue.add(Key("run", "team", "first"))

        await office.has_jobs("first-1", "second-1")
        assert office.status("first").holds("Complete")
