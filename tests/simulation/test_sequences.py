"""Sequences of which each went wrong once, alone; the random players leave out what still does."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.controller.api_server import refusal
from tests.controller.mutations import (
    WRONG,
    make_raw_cluster,
    make_raw_job,
    make_raw_pod,
    make_raw_run,
)
from tests.simulation.clock import monotonic
from tests.simulation.loop import run_virtually
from tests.simulation.play import Play
from tests.simulation.users import Users, status_of
from tests.simulation.world import CLUSTER, World
from trainshed_api.json_object import JsonObject, as_object

HALF: JsonObject = {"count": 2, "resources": {"cpu": 4}}
WHOLE: JsonObject = {"count": 3, "resources": {"cpu": 4}}
Script = Callable[[World, Users], Awaitable[None]]


def play(script: Script) -> World:
    """Return the world after a script in which a controller runs."""

    async def whole() -> World:
        played = Play(1)
        async with played.running():
            await asyncio.sleep(5)
            await script(played.world, Users(played.world))
        return played.world

    return run_virtually(whole())


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something, two virtual hours at most."""
    async with asyncio.timeout(7200):
        while not is_so():
            await asyncio.sleep(0.5)


async def until_it_trains(world: World, name: str) -> None:
    """Wait until a run's driver trains."""
    await until(lambda: status_of(world, name).phase == "Running")


def phases(world: World) -> dict[str, str | None]:
    """Return the phase of each run."""
    return {name: status_of(world, name).phase for name in ("next", "urgent", "healthy")}


def test_a_lost_worker_leaves_no_room_to_others() -> None:
    async def script(world: World, users: Users) -> None:
        users.create("holder", 3000.0, workers=WHOLE)
        await until_it_trains(world, "holder")
        users.create("next", workers={"count": 1, "resources": {"cpu": 4}})
        world.server.drop("pods", f"{CLUSTER}-cpu-worker-0")
        await asyncio.sleep(60)

    assert play(script).book.faults == []


def test_a_run_that_is_made_smaller_while_it_runs_keeps_its_room() -> None:
    async def script(world: World, users: Users) -> None:
        users.create("holder", 3000.0, workers=WHOLE)
        await until_it_trains(world, "holder")
        users.set_spec("holder", workers={"count": 1, "resources": {"cpu": 4}})
        users.create("next", workers=HALF)
        await asyncio.sleep(60)
        assert phases(world)["next"] == "Queued"

    play(script)


def test_room_is_free_when_the_driver_has_ended() -> None:
    async def script(world: World, users: Users) -> None:
        uid = users.create("holder", 3000.0, workers=WHOLE, gracePeriodSeconds=60)
        world.fates[uid] = "ignores stops"
        await until_it_trains(world, "holder")
        users.create("next", workers=WHOLE)
        users.set_spec("holder", suspend=True)
        await until(lambda: "next-1" in world.server.names("rayjobs"))
        assert not world.has_driver(uid)

    play(script)


def test_a_driver_that_nobody_could_be_asked_for_is_asked_for_when_its_head_answers() -> None:
    async def script(world: World, users: Users) -> None:
        uid = users.create("holder", 9000.0, workers=HALF)
        world.fates[uid] = "is silent"
        await until(lambda: world.has_driver(uid))
        await asyncio.sleep(120)
        head = world.heads.of[CLUSTER]
        head.answers = False
        users.set_spec("holder", suspend=True)
        await asyncio.sleep(400)
        assert world.has_driver(uid)
        users.set_spec("holder", suspend=False)
        await until(lambda: "holder-2" in world.server.names("rayjobs"))
        users.set_spec("holder", suspend=True)
        await asyncio.sleep(300)
        head.answers, head.answers_since = True, monotonic()
        await asyncio.sleep(300)
        users.set_spec("holder", suspend=False)
        await until(lambda: "holder-3" in world.server.names("rayjobs"))
        assert not world.has_driver(uid)

    play(script)


def test_who_pauses_after_a_failure_lets_others_in() -> None:
    async def script(world: World, users: Users) -> None:
        uid = users.create(
            "fails", 3000.0, workers=WHOLE, failurePolicy={"maxApplicationFailures": 9}
        )
        world.fates[uid] = "crashes"
        await until(lambda: status_of(world, "fails").failures.application >= 5)
        users.create("urgent", 3000.0, workers=WHOLE, priority=100)
        await asyncio.sleep(30)
        assert phases(world)["urgent"] != "Queued"

    play(script)


@pytest.mark.parametrize("status", [404, 410])
def test_a_run_that_seems_to_be_gone_once_keeps_its_room(status: int) -> None:
    async def script(world: World, users: Users) -> None:
        users.create("holder", 3000.0, workers=WHOLE)
        await until_it_trains(world, "holder")
        world.answer_once("PATCH", "/holder/status", refusal(status, "not found"))
        await asyncio.sleep(60)
        users.create("next", workers=WHOLE)
        await asyncio.sleep(60)

    assert play(script).book.faults == []


@pytest.mark.parametrize("wrong", WRONG)
def test_a_healthy_run_beside_what_nobody_can_read_goes_on_and_ends(wrong: str) -> None:
    async def script(world: World, users: Users) -> None:
        users.create("healthy", 120.0, workers=HALF)
        for plural, raw in (
            ("trainingruns", make_raw_run()),
            ("rayjobs", make_raw_job()),
            ("rayclusters", make_raw_cluster()),
            ("pods", make_raw_pod()),
        ):
            for part in ("spec", "status"):
                metadata: JsonObject = {"name": f"wrong-{part}", "namespace": "team"}
                spoilt: JsonObject = dict.fromkeys(as_object(raw[part]), WRONG[wrong])
                changed: JsonObject = {"metadata": metadata, part: spoilt}
                world.server.put(plural, raw | changed)
        await asyncio.sleep(600)
        assert phases(world)["healthy"] == "Succeeded"

    world = play(script)
    assert not [fault for fault in world.book.faults if "healthy" in fault or "died" in fault]
