"""`python -m tests.simulation.histories`: record the histories that tests/controller replays."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from http import HTTPStatus

from tests.controller.api_server import refusal
from tests.controller.history import FOLDER, Look, lines_of
from tests.simulation.driver import Driver
from tests.simulation.loop import run_virtually
from tests.simulation.play import Play
from tests.simulation.users import Users, status_of
from tests.simulation.world import CLUSTER, World
from trainshed_api.json_object import JsonObject, as_object
from trainshed_controller.decide import decide
from trainshed_controller.model import Observed, Plan, RunView, Settings

NAME = "digits"
WHOLE: JsonObject = {"count": 3, "resources": {"cpu": 4}}
WORKER = f"{CLUSTER}-cpu-worker-0"
_SEED = 4
_AFTER_SECONDS = 90.0
Script = Callable[[World, Users], Awaitable[None]]


def record(script: Script) -> list[Look]:
    """Return the looks at the run while a script is played, and some after its end."""
    looks: list[Look] = []

    def recorded(view: RunView, seen: Observed, settings: Settings, now: datetime) -> Plan:
        if view.name == NAME:
            looks.append(Look(view, seen, now))
        return decide(view, seen, settings, now)

    async def whole() -> None:
        played = Play(_SEED)
        world = played.world
        world.decide, world.kuberay.may_refuse = recorded, False
        async with played.running():
            await asyncio.sleep(5)
            await script(world, Users(world))
            await _until(world, "Succeeded")
            await asyncio.sleep(_AFTER_SECONDS)

    run_virtually(whole())
    return looks


async def _until(world: World, *phases: str) -> None:
    async with asyncio.timeout(7200):
        while status_of(world, NAME).phase not in phases:
            await asyncio.sleep(0.5)


async def _train(world: World, users: Users) -> Driver:
    """Create a run, and return its driver when it trains on a worker."""
    uid = users.create(NAME, 60.0)
    await _until(world, "Running")
    driver = world.book.drivers[uid, 1][-1]
    driver.says = {"hosts": (WORKER,)}
    await asyncio.sleep(20)
    return driver


async def start(_: World, users: Users) -> None:
    """A run that trains and ends."""
    users.create(NAME, 60.0)


async def stop(world: World, users: Users) -> None:
    """A run that is suspended while it trains, and resumed."""
    await _train(world, users)
    users.set_spec(NAME, suspend=True)
    await _until(world, "Suspended")
    await asyncio.sleep(60)
    users.set_spec(NAME, suspend=False)


async def worker_lost(world: World, users: Users) -> None:
    """A run that loses a worker and starts it again."""
    driver = await _train(world, users)
    world.server.drop("pods", WORKER)
    await asyncio.sleep(5)
    driver.says |= {"restarting": True}
    await asyncio.sleep(20)
    driver.says = {"hosts": (f"{CLUSTER}-cpu-worker-1",), "workers_lost": 1}


async def head_lost(world: World, users: Users) -> None:
    """A run that loses the head of its cluster."""
    await _train(world, users)
    world.kill_head("Error")
    await asyncio.sleep(30)
    world.put_head(another_pod=False)


async def node_lost(world: World, users: Users) -> None:
    """A run of which the node evicts the head."""
    await _train(world, users)
    world.excuse(NAME, "its node is lost")
    name = next(name for name in world.server.names("pods") if name.startswith("head-"))
    evicted: JsonObject = {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
    world.server.put("pods", as_object(world.server.peek("pods", name)) | {"status": evicted})
    world.heads.of[CLUSTER].die()
    await asyncio.sleep(30)
    world.put_head(another_pod=True)


async def queue(world: World, users: Users) -> None:
    """A run that waits for another one."""
    users.create("holder", 60.0, workers=WHOLE)
    await asyncio.sleep(5)
    users.create(NAME, 30.0, workers=WHOLE)
    await _until(world, "Queued")


async def preemption(world: World, users: Users) -> None:
    """A run of which somebody suspends the RayJob."""
    await _train(world, users)
    job = as_object(world.server.peek("rayjobs", f"{NAME}-1"))
    world.server.put("rayjobs", job | {"spec": as_object(job["spec"]) | {"suspend": True}})
    await asyncio.sleep(30)


async def deletion(world: World, users: Users) -> None:
    """A run of which somebody deletes the RayJob."""
    await _train(world, users)
    world.server.delete("rayjobs", f"{NAME}-1")
    await asyncio.sleep(30)


async def cluster_changed(world: World, users: Users) -> None:
    """A run that names a cluster in a pause that is not for sharing, and then its own again."""
    await _train(world, users)
    users.set_spec(NAME, suspend=True)
    await _until(world, "Suspended")
    users.set_spec(NAME, suspend=False, cluster={"shared": "other"})
    await asyncio.sleep(60)
    users.set_spec(NAME, cluster={"shared": CLUSTER})


async def program_failed(world: World, users: Users) -> None:
    """A run of which the program fails twice."""
    uid = users.create(NAME, 60.0, failurePolicy={"maxApplicationFailures": 2})
    world.fates[uid] = "crashes"
    await _until(world, "Running")
    world.trainings[uid].seconds = 120.0  # its driver crashes somewhere in the first 60
    async with asyncio.timeout(7200):
        while status_of(world, NAME).failures.application < 2:
            await asyncio.sleep(0.5)
    world.fates[uid] = "ends well"


async def refused(world: World, users: Users) -> None:
    """A run of which the API server refuses the RayJob, and that is edited then."""
    world.answer_once("POST", "/rayjobs", refusal(HTTPStatus.FORBIDDEN, "exceeded quota: runs"))
    users.create(NAME, 60.0)
    await asyncio.sleep(10)
    users.set_spec(NAME, workers=WHOLE)


async def upgrade(world: World, users: Users) -> None:
    """A run that another release began, which wrote no reservations."""
    await _train(world, users)
    world.crash()
    raw = as_object(world.server.peek("trainingruns", NAME))
    status = as_object(raw["status"])
    kept = (
        "number",
        "generation",
        "rayJob",
        "jobId",
        "rayCluster",
        "specHash",
        "startTime",
        "headIdentity",
    )
    attempt = as_object(status["attempts"][0])  # type: ignore[index]  # JSON
    old: JsonObject = {name: attempt[name] for name in kept}
    world.server.put("trainingruns", raw | {"status": status | {"attempts": [old]}})


SCRIPTS: tuple[Script, ...] = (
    start, stop, worker_lost, head_lost, node_lost,
    queue, preemption, deletion, cluster_changed, program_failed, refused, upgrade,
)  # fmt: skip


def main() -> None:
    """Write the histories, or those that are named."""
    names = sys.argv[1:] or [script.__name__ for script in SCRIPTS]
    for script in (each for each in SCRIPTS if each.__name__ in names):
        path = FOLDER / f"{script.__name__}.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines_of(record(script))), "utf-8")


if __name__ == "__main__":
    main()
