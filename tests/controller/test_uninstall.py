"""What the hook before an uninstall does to runs, the controller and RayJobs."""

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.builders import make_document
from tests.controller.api_server import Answer, ApiServer, Refused, Request
from trainshed_api.json_object import JsonObject, as_object
from trainshed_controller.clock import Clock
from trainshed_controller.errors import ApiError
from trainshed_controller.settings import read_platform
from trainshed_controller.uninstall import DEPLOYMENT, Removal, TimeError, main

ATTEMPT: JsonObject = {"number": 1, "generation": 1, "rayJob": "x-1", "jobId": "x-0-1"}
OPEN: JsonObject = {"phase": "Running", "attempt": 1, "attempts": [ATTEMPT]}


@dataclass
class Site(ApiServer):
    """An API server with a controller that stops what is suspended, while it runs.

    Attributes:
        deaf: requests, as METHOD plural/name, that fail, and how often.
        deaf_with: the status that they fail with.
        vanishing: runs that are deleted as soon as they have been listed.
        stubborn: runs whose driver does not stop.
        replicas: of the controller's Deployment; None where there is none.
    """

    deaf: dict[str, int] = field(default_factory=dict)
    deaf_with: HTTPStatus = HTTPStatus.INTERNAL_SERVER_ERROR
    vanishing: set[str] = field(default_factory=set)
    stubborn: set[str] = field(default_factory=set)
    replicas: int | None = 1

    def add_run(self, name: str, status: JsonObject | None = None, **spec: JsonValue) -> None:
        """Add a run; one that has begun has its RayJob."""
        document = make_document(**spec)
        document["metadata"] = {"name": name, "namespace": "team"}
        kept = self.put("trainingruns", document | ({"status": status} if status else {}))
        if status == OPEN:
            self.add_job(f"{name}-1", owner=str(as_object(kept["metadata"])["uid"]))

    def add_job(self, name: str, owner: str) -> None:
        references: JsonValue = [{"controller": True, "uid": owner}]
        metadata: JsonObject = {"name": name, "namespace": "team", "ownerReferences": references}
        self.put("rayjobs", {"metadata": metadata})

    def is_suspended(self, name: str) -> bool:
        run = as_object(self.get("trainingruns", name))
        return as_object(run["spec"]).get("suspend") is True

    def answer(self, request: Request) -> JsonObject:
        *_, plural, name = request.path.split("/")
        what = f"{request.method} {plural}/{name}"
        if self.deaf.get(what, 0):
            self.deaf[what] -= 1
            raise Refused(self.deaf_with, "not now")
        if name == "scale":
            return self._scale()
        said = super().answer(request)
        if name == "trainingruns":
            for gone in self.vanishing:
                self.drop("trainingruns", gone)
        if request.method == "PATCH" and plural == "trainingruns" and name not in self.stubborn:
            self._stop(name)
        return said

    def _scale(self) -> JsonObject:
        if self.replicas is None:
            raise Refused(HTTPStatus.NOT_FOUND, "no Deployment")
        self.replicas = 0
        return {}

    def _stop(self, name: str) -> None:
        run = as_object(self.get("trainingruns", name))
        if self.replicas and "status" in run:
            ended: JsonObject = ATTEMPT | {"outcome": "Stopped"}
            stopped: JsonObject = {"phase": "Suspended", "attempt": 1, "attempts": [ended]}
            self.put("trainingruns", run | {"status": stopped})


@dataclass
class Seconds:
    """A clock that goes on by so much with each look at it."""

    passed: float = 0.0
    step: float = 1.0

    def __call__(self) -> float:
        self.passed += self.step
        return self.passed


def remove(site: Site, seconds: float = 240, redis_cluster: str = "") -> None:
    """Do what the hook does, with so much time."""
    told = {
        "TRAINSHED_CONTROLLER_NAMESPACE": "team",
        "TRAINSHED_CONTROLLER_UNINSTALL_SECONDS": str(seconds),
    }
    platform, clock = read_platform(told), Clock(monotonic=Seconds())
    removal = Removal(
        site.connect(), platform, "controller", clock, look_seconds=0.0, redis_cluster=redis_cluster
    )
    asyncio.run(removal.run())


def test_live_and_waiting_runs_are_suspended_and_rayjobs_go() -> None:
    site = Site()
    site.add_run("live", OPEN)
    site.add_run("waiting")
    site.add_run("over", {"phase": "Succeeded", "completionTime": "2026-11-21T12:00:00Z"})
    site.add_job("somebody-elses", "another-uid")

    remove(site)

    assert site.is_suspended("live")
    assert site.is_suspended("waiting")
    assert not site.is_suspended("over")
    assert site.names("rayjobs") == ["somebody-elses"]
    assert site.replicas == 0


def test_a_cluster_with_state_in_redis_is_deleted_and_others_stay() -> None:
    site = Site()
    site.add_run("live", OPEN)
    for name in ("trainshed", "another"):
        site.put("rayclusters", {"metadata": {"name": name, "namespace": "team"}})

    remove(site, redis_cluster="trainshed")

    assert site.names("rayclusters") == ["another"]
    assert site.is_suspended("live")


def test_a_cluster_that_stays_in_its_finalizer_fails_the_hook() -> None:
    site = Site(deaf={"DELETE rayclusters/trainshed": 3})
    held: JsonObject = {"name": "trainshed", "namespace": "team", "finalizers": ["ray.io/redis"]}
    site.put("rayclusters", {"metadata": held})

    with pytest.raises(TimeError, match=r"kubectl -n team patch raycluster trainshed --type merge"):
        remove(site, redis_cluster="trainshed")

    assert site.names("rayclusters") == ["trainshed"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (HTTPStatus.NOT_FOUND, ""),  # the CRDs of KubeRay are gone
        (HTTPStatus.FORBIDDEN, "kubectl -n team patch raycluster trainshed --type merge"),
    ],
)
def test_a_cluster_that_cannot_be_listed_does_not_stop_the_uninstall(
    answer: HTTPStatus, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(deaf={"GET team/rayclusters": 100_000}, deaf_with=answer)

    remove(site, redis_cluster="trainshed")

    assert says in caplog.text


def test_a_cluster_with_state_in_redis_has_time_of_its_own() -> None:
    site = Site()
    site.add_run("live", OPEN, gracePeriodSeconds=61)

    with pytest.raises(TimeError, match="may take 241 seconds and this hook has 240"):
        remove(site, redis_cluster="trainshed")

    remove(site)
    assert site.is_suspended("live")


def test_the_controller_lives_until_runs_have_stopped() -> None:
    site = Site()
    site.add_run("live", OPEN)

    remove(site)

    assert "Stopped" in str(site.get("trainingruns", "live"))


def test_a_run_that_is_deleted_meanwhile_keeps_nobody_up() -> None:
    site = Site(vanishing={"gone"})
    site.add_run("gone", OPEN)
    site.add_run("live", OPEN)

    remove(site)

    assert site.is_suspended("live")
    assert site.replicas == 0


def test_a_run_that_cannot_be_suspended_is_told_and_keeps_nobody_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    site = Site(deaf={"PATCH trainingruns/bad": 1000})
    site.add_run("bad", OPEN)
    site.add_run("live", OPEN)

    remove(site)

    assert site.is_suspended("live")
    assert site.names("rayjobs") == []
    [warning] = [row.message for row in caplog.records if row.levelno == logging.WARNING]
    assert warning.startswith("team/bad could not be suspended, a later installation starts it: ")
    assert "not now" in warning


HICCUPS = ["GET team/trainingruns", "GET team/rayjobs", "PATCH controller/scale"]


@pytest.mark.parametrize("what", ["PATCH trainingruns/live", "DELETE rayjobs/live-1", *HICCUPS])
def test_a_request_that_fails_is_made_again(what: str, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(deaf={what: 3})
    site.add_run("live", OPEN)

    remove(site)

    assert site.is_suspended("live")
    assert site.names("rayjobs") == []
    assert site.replicas == 0
    assert not [row for row in caplog.records if row.levelno >= logging.WARNING]


def test_an_api_server_that_never_answers_is_an_error() -> None:
    with pytest.raises(ApiError, match="not now"):
        remove(Site(deaf={"GET team/trainingruns": 100_000}))


def test_a_grace_longer_than_the_time_there_is_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site()
    site.add_run("patient", OPEN, gracePeriodSeconds=600)
    site.add_run("live", OPEN)

    with pytest.raises(TimeError) as refusal:
        remove(site)

    assert str(refusal.value) == (
        "stopping team/patient may take 690 seconds and this hook has 240; nothing was stopped. "
        "Lower its gracePeriodSeconds, suspend or delete it first and wait until it has stopped, "
        "or give more time: helm upgrade with controller.uninstallSeconds=690, then helm uninstall "
        "with --timeout=750s"
    )
    assert [row.message for row in caplog.records] == ["team/patient: gracePeriodSeconds is 600"]
    assert not [request for request in site.asked if request.method != "GET"]
    remove(site, seconds=690)
    assert site.is_suspended("patient")


def test_of_more_runs_with_a_long_grace_the_longest_is_named_and_how_many_there_are() -> None:
    site = Site()
    site.add_run("patient", OPEN, gracePeriodSeconds=600)
    site.add_run("stoic", OPEN, gracePeriodSeconds=900)

    with pytest.raises(TimeError, match=r"stopping team/stoic \(and 1 more, named above\) may"):
        remove(site)


def test_a_run_that_has_not_begun_needs_no_grace() -> None:
    site = Site()
    site.add_run("waiting", gracePeriodSeconds=600)

    remove(site)

    assert site.is_suspended("waiting")


def test_a_driver_that_does_not_stop_loses_its_rayjob_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site(stubborn={"live"})
    site.add_run("live", OPEN)

    remove(site)

    assert site.names("rayjobs") == []
    assert "not all runs stopped in time" in caplog.text


@dataclass
class SlowWire:
    """Between the hook and a site: some requests wait for an answer until nobody does any more.

    Attributes:
        method: of these requests.
        most: of these that waited at once.
    """

    site: Site
    clock: Seconds
    method: str
    most: int = 0
    _waiting: int = 0

    async def __call__(self, request: Request) -> Answer:
        if request.method != self.method or request.path.endswith("/scale"):
            return self.site.respond(request)
        self.site.asked.append(request)
        self._waiting += 1
        self.most = max(self.most, self._waiting)
        over = self.clock.passed + 20.0
        await asyncio.sleep(0)
        self.clock.passed = max(self.clock.passed, over)
        self._waiting -= 1
        raise TimeoutError


def remove_slowly(site: Site, method: str, passing: Seconds) -> SlowWire:
    """Do what the hook does, while requests of this method are not answered."""
    wire = SlowWire(site, passing, method)
    platform = read_platform({"TRAINSHED_CONTROLLER_NAMESPACE": "team"})
    clock = Clock(monotonic=passing)
    removal = Removal(site.connect(wire), platform, "controller", clock, look_seconds=0.0)
    asyncio.run(removal.run())
    return wire


def test_runs_of_which_no_change_is_answered_leave_time_for_their_rayjobs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site()
    for number in range(40):
        site.add_run(f"r{number}", OPEN)

    clock = Seconds(step=0.01)
    wire = remove_slowly(site, "PATCH", clock)

    assert clock.passed < 240.0
    assert wire.most == 10
    assert site.replicas == 0
    assert site.names("rayjobs") == []
    for number in range(40):
        assert f"team/r{number} could not be suspended" in caplog.text


def test_a_run_that_the_time_did_not_reach_is_told(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    for number in range(200):
        site.add_run(f"r{number}")

    remove_slowly(site, "PATCH", Seconds())

    assert "team/r199 could not be suspended" in caplog.text
    assert "there was no time left" in caplog.text


def test_runs_that_train_are_suspended_before_those_that_wait() -> None:
    site = Site()
    site.add_run("waiting")
    site.add_run("live", OPEN)

    remove(site)

    patched = [request.path.split("/")[-1] for request in site.asked if request.method == "PATCH"]
    assert patched[:2] == ["live", "waiting"]


def test_a_rayjob_that_cannot_be_deleted_keeps_no_other() -> None:
    site = Site(deaf={"DELETE rayjobs/bad-1": 100_000})
    for name in ("bad", "live"):
        site.add_run(name, OPEN)

    with pytest.raises(ApiError, match="not now"):
        remove(site)

    assert site.names("rayjobs") == ["bad-1"]


def test_rayjobs_of_which_no_deletion_is_answered_take_no_more_time_than_there_is() -> None:
    site = Site()
    for number in range(40):
        site.add_run(f"r{number}", OPEN)

    clock = Seconds(step=0.01)
    with pytest.raises(ApiError):
        remove_slowly(site, "DELETE", clock)

    assert clock.passed < 270.0


def test_a_second_try_finds_less_and_is_no_error() -> None:
    remove(Site(replicas=None))


LEVELS = 9_000
# Written by hand, for json.dumps does not go so deep.
DEEP = (
    '{"items": [{"metadata": {"name": "deep", "namespace": "team", "uid": "u"}, "spec": {"train": '
    + "[" * LEVELS
    + "]" * LEVELS
    + "}}]}"
)


class DeepServer(BaseHTTPRequestHandler):
    """Has one run, which is nested as deep as an API server allows; says yes to every change."""

    def do_GET(self) -> None:
        self._say(DEEP if self.path.partition("?")[0].endswith("trainingruns") else "{}")

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say("{}")

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""

    def _say(self, text: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def deep_server(tmp_path: Path) -> Iterator[Path]:
    """Yield the kubeconfig of the server."""
    server = HTTPServer(("127.0.0.1", 0), DeepServer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    config = {
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    yield tmp_path / "kubeconfig"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_object_as_deep_as_an_api_server_takes_stops_nothing(
    deep_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(deep_server))
    monkeypatch.setenv("TRAINSHED_CONTROLLER_NAMESPACE", "team")
    monkeypatch.setenv("TRAINSHED_CONTROLLER_UNINSTALL_SECONDS", "6")
    monkeypatch.setenv(DEPLOYMENT, "controller")
    limit = sys.getrecursionlimit()

    try:
        main()
    finally:
        sys.setrecursionlimit(limit)
