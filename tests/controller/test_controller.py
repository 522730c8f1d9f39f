"""One turn of a key after the other, without any watch: what a write of ours has to set going."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import pytest
from pydantic import JsonValue

from tests.builders import make_document
from tests.controller.api_server import ApiServer, Refused, Request
from tests.controller.builders_view import (
    SETTINGS,
    make_cluster,
    make_head,
    make_snapshot,
    make_worker,
    raw_pod,
)
from trainshed_api.json_object import JsonObject, as_object, objects
from trainshed_api.snapshot import Snapshot
from trainshed_api.status import ConditionType, TrainingRunStatus
from trainshed_controller.cache import Cache
from trainshed_controller.cluster import Cluster
from trainshed_controller.controller import Controller, progress_interval
from trainshed_controller.errors import ConflictError, GoneError
from trainshed_controller.events import EventPoster
from trainshed_controller.jobs import JobsApi
from trainshed_controller.metrics import Metrics
from trainshed_controller.model import Key, Place, RunView
from trainshed_controller.observe import Observer
from trainshed_controller.prober import Prober
from trainshed_controller.queue import WorkQueue
from trainshed_controller.snapshots import SnapshotStore
from trainshed_controller.views import read_job, read_pod, read_run


@dataclass
class Spoilt(ApiServer):
    """An API server that refuses some requests: by method and kind, the status, so many times."""

    refusals: dict[tuple[str, str], tuple[HTTPStatus, int]] = field(default_factory=dict)

    def answer(self, request: Request) -> JsonObject:
        """Return what is answered; raise Refused."""
        for (method, kind), (status, times) in self.refusals.items():
            if request.method == method and f"/{kind}" in request.path and times:
                self.refusals[method, kind] = (status, times - 1)
                raise Refused(status, f"{kind}: not this time")
        return super().answer(request)


@dataclass
class Office:
    """A controller at work that hears nothing but the answers to its own requests."""

    server: Spoilt
    cache: Cache
    cluster: Cluster
    controller: Controller
    observer: Observer
    queue: WorkQueue
    metrics: Metrics
    events: EventPoster

    def create_run(self, name: str, **spec: JsonValue) -> None:
        """Create a run, and let the controller know of it."""
        document = make_document(**spec)
        document["metadata"] = {"name": name, "namespace": "team"}
        self.cache.runs.put(read_run(self.server.put("trainingruns", document)))

    def look_at(self, name: str) -> None:
        """Have the run looked at, and the queue of its cluster."""
        self.queue.add(Key("run", "team", name))
        self.queue.add(Key("cluster", "team", "trainshed"))

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
        """Wait until the API server has these RayJobs."""
        await until(lambda: self.server.names("rayjobs") == sorted(names))

    async def says(self, name: str, kind: ConditionType, reason: str) -> None:
        """Wait until a condition of a run has a reason."""

        def is_so() -> bool:
            found = self.status(name).condition(kind)
            return found is not None and found.reason == reason

        await until(is_so)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something holds; a controller that needs long for it fails."""
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def working() -> AsyncIterator[Office]:
    """A controller at work beside a shared cluster with one worker."""
    server, cache = Spoilt(), Cache(SETTINGS)
    shared, pods = make_cluster(), (make_head(), make_worker())
    cache.clusters.put(shared)
    server.put("rayclusters", {"metadata": {"name": shared.name, "uid": shared.uid}})
    for pod in pods:
        cache.pods.put(read_pod(server.put("pods", raw_pod(pod))))
    cluster, jobs, metrics = server.connect(), JobsApi("", None), Metrics(cache)

    def look(key: Key) -> None:
        queue.add(key)

    prober = Prober(jobs, look)
    observer = Observer(cache, cluster, prober, SETTINGS)
    events = EventPoster(cluster.post_event)
    queue = WorkQueue()
    controller = Controller(cache, cluster, observer, events, queue, SETTINGS, metrics, b"key")
    task = asyncio.create_task(queue.run(4, controller.work, controller.trouble))
    posting = asyncio.create_task(events.run())
    try:
        yield Office(server, cache, cluster, controller, observer, queue, metrics, events)
    finally:
        posting.cancel()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await prober.close()
        await jobs.close()


async def test_a_run_that_ends_lets_the_next_one_in_without_being_told() -> None:
    async with working() as office:
        for name in ("first", "second"):
            office.create_run(name, workers={"count": 1, "resources": {"cpu": 4}})
            office.look_at(name)
        await office.has_jobs("first-1")

        office.hear("first", Snapshot(attempt=1, time=0.0, state="Ended", exit_code=0))
        office.tell_of_job("first-1", jobStatus="SUCCEEDED", jobDeploymentStatus="Complete")
        office.look_at("first")

        await office.has_jobs("first-1", "second-1")
        assert office.status("first").holds("Complete")


async def test_a_rayjob_whose_deletion_failed_is_deleted_although_the_run_has_ended() -> None:
    async with working() as office:
        office.create_run("first", failurePolicy={"maxInfrastructureFailures": 0})
        office.look_at("first")
        await office.has_jobs("first-1")
        office.tell_of_job("first-1", jobStatus="RUNNING", jobDeploymentStatus="Running")
        office.look_at("first")
        await office.says("first", "ClusterReady", "Ready")

        office.server.refusals["DELETE", "rayjobs"] = (HTTPStatus.INTERNAL_SERVER_ERROR, 2)
        office.cache.pods.put(read_pod(office.server.put("pods", raw_pod(make_head("c2")))))
        office.look_at("first")

        await office.has_jobs()
        assert office.status("first").holds("Failed")


@pytest.mark.parametrize("status", [HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY])
async def test_a_rayjob_that_the_api_server_refuses_is_told_to_its_run(status: HTTPStatus) -> None:
    async with working() as office:
        office.server.refusals["POST", "rayjobs"] = (status, 1_000)
        office.create_run("first")
        office.look_at("first")

        await office.says("first", "Progressing", "RayJobRefused")
        posts = [asked for asked in office.server.asked if "rayjobs" in asked.path]
        assert posts == []  # refused before the server looked at it
        said = office.status("first").condition("Progressing")
        assert said
        assert said.message == "rayjobs: not this time"


async def test_an_error_of_ours_over_one_run_is_told_to_it_and_leaves_the_others_alone() -> None:
    async with working() as office:
        office.create_run("broken")
        office.create_run("first", workers={"count": 1, "resources": {"cpu": 1}})
        raw = as_object(office.server.get("trainingruns", "broken"))
        view = read_run(office.server.put("trainingruns", raw))
        assert view.run
        # What no reader lets through, and some day one will.
        spec = view.run.spec.model_copy(update={"workers": None})
        office.cache.runs.put(replace(view, run=view.run.model_copy(update={"spec": spec})))
        office.look_at("broken")
        office.look_at("first")

        await office.has_jobs("first-1")
        assert office.metrics.registry.get_sample_value("trainshed_internal_errors_total")
        await office.says("broken", "InternalError", "ControllerFailed")


async def test_what_writes_of_a_status_turned_is_told() -> None:
    turned: set[tuple[str, str]] = set()

    def tell(before: RunView, after: RunView) -> None:
        for kind in ("Admitted", "InternalError"):
            if after.status.holds(kind) and not before.status.holds(kind):
                turned.add((after.name, kind))

    async with working() as office:
        office.controller.tell = tell
        office.create_run("first", failurePolicy={"maxInfrastructureFailures": 0})
        office.look_at("first")
        await office.has_jobs("first-1")
        await office.controller.trouble(Key("run", "team", "first"), KeyError("x"), 1.0)

    assert turned == {("first", "Admitted"), ("first", "InternalError")}


async def test_an_error_of_ours_erases_nothing_that_a_later_release_wrote() -> None:
    async with working() as office:
        office.create_run("broken")
        raw = as_object(office.server.get("trainingruns", "broken"))
        later = office.server.put("trainingruns", raw | {"status": {"laterField": 1}})
        office.cache.runs.put(read_run(later))

        await office.controller.trouble(Key("run", "team", "broken"), ValueError("x"), 1.0)

        assert office.status("broken").holds("InternalError")
        status = as_object(as_object(office.server.get("trainingruns", "broken"))["status"])
        assert status["laterField"] == 1


async def test_a_write_erases_nothing_that_a_later_release_wrote() -> None:
    async with working() as office:
        office.create_run("first")
        office.look_at("first")
        await office.has_jobs("first-1")
        raw = as_object(office.server.get("trainingruns", "first"))
        status = as_object(raw["status"])
        [attempt] = objects(status["attempts"])
        attempt["laterField"] = {"deep": True}
        status |= {"laterField": 1, "progress": {"laterField": 2, "step": 1}}
        office.cache.runs.put(read_run(office.server.put("trainingruns", raw)))
        office.hear("first", make_snapshot(step=90))

        office.look_at("first")
        await office.says("first", "Progressing", "Training")

        status = as_object(as_object(office.server.get("trainingruns", "first"))["status"])
        progress = as_object(status["progress"])
        assert (status["laterField"], progress["laterField"], progress["step"]) == (1, 2, 90)
        assert objects(status["attempts"])[0]["laterField"] == {"deep": True}


async def test_a_second_term_does_not_set_progress_back() -> None:
    seconds = [1_000.0]
    async with working() as office:
        office.observer.snapshots = SnapshotStore(lambda: seconds[0])
        office.create_run("first")
        office.look_at("first")
        await office.has_jobs("first-1")
        office.hear("first", make_snapshot(step=10))
        seconds[0] += 3_600  # of which another replica acted, and heard of step 90
        running: JsonValue = {"phase": "Running", "progress": {"step": 90, "steps": 100}}
        raw = as_object(office.server.get("trainingruns", "first"))
        raw["status"] = as_object(raw["status"]) | as_object(running)
        office.cache.runs.put(read_run(office.server.put("trainingruns", raw)))

        office.controller.begin_term()
        office.look_at("first")
        await office.says("first", "Progressing", "Training")

        progress = office.status("first").progress
        assert progress
        assert progress.step == 90


async def test_a_write_that_waits_makes_no_deadline_late() -> None:
    async with working() as office:
        office.create_run("first", activeDeadlineSeconds=9)
        office.look_at("first")
        await office.has_jobs("first-1")
        office.hear("first", make_snapshot(step=1))
        office.look_at("first")
        await office.says("first", "Progressing", "Training")
        office.hear("first", make_snapshot(step=2, sequence=2))

        again_after = await office.controller.work(Key("run", "team", "first"))

        assert again_after
        assert again_after <= 9.0


async def test_nothing_is_remembered_of_a_run_that_was_created_again() -> None:
    async with working() as office:
        office.create_run("first")
        old = office.cache.runs.get("team", "first")
        assert old
        office.controller.queues.places[old.uid] = Place(admitted=True)
        office.server.drop("trainingruns", "first")
        document = make_document()
        document["metadata"] = {"name": "first", "namespace": "team"}
        office.server.put("trainingruns", document)

        with pytest.raises(ConflictError):
            await office.controller.work(Key("run", "team", "first"))

        assert old.uid not in office.controller.queues.places


async def test_one_answer_that_a_rayjob_is_gone_is_not_believed() -> None:
    async with working() as office:
        office.create_run("first")
        office.look_at("first")
        await office.has_jobs("first-1")
        job = office.cache.jobs.get("team", "first-1")
        assert job

        office.server.refusals["DELETE", "rayjobs/first-1"] = (HTTPStatus.NOT_FOUND, 1)
        with pytest.raises(GoneError):
            await office.cluster.delete_job(job)
        assert office.server.names("rayjobs") == ["first-1"]


async def test_a_transition_is_reported_although_what_follows_it_fails() -> None:
    async with working() as office:
        office.server.refusals["POST", "rayjobs"] = (HTTPStatus.INTERNAL_SERVER_ERROR, 1_000)
        office.create_run("first")
        office.look_at("first")

        await until(lambda: office.status("first").phase == "Starting")
        await office.events.drain(1.0)
        notes = [as_object(office.server.get("events", n)) for n in office.server.names("events")]
        assert "Starting" in [note["reason"] for note in notes]


@pytest.mark.parametrize(("active", "shortest"), [(1, 10.0), (400, 10.0), (1_000, 25.0)])
def test_progress_of_many_runs_is_written_less_often_and_at_different_moments(
    active: int, shortest: float
) -> None:
    intervals = {progress_interval(f"uid-{number}", active, 10.0) for number in range(active)}

    assert shortest <= min(intervals) <= max(intervals) <= 1.2 * shortest
    assert len(intervals) > active / 3
