"""One run, one kind of fault, one restart: the thinnest whole."""

import asyncio

from tests.simulation.loop import run_virtually
from tests.simulation.users import Users
from tests.simulation.world import World
from trainshed_api.json_object import as_object
from trainshed_api.status import TrainingRunStatus


async def thin(seed: int) -> World:
    world = World(seed)
    users = Users(world)
    serving = asyncio.create_task(world.serve())
    await asyncio.sleep(5)
    users.create("one", workers={"count": 2, "resources": {"cpu": 4}})
    await asyncio.sleep(600)
    run = as_object(world.server.peek("trainingruns", "one"))
    status = TrainingRunStatus.model_validate(as_object(run.get("status")))
    print(world.story.end())
    print(status.phase, world.book.faults)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert status.holds("Complete")
    return world


def test_a_run_ends_well() -> None:
    assert run_virtually(thin(1)).book.faults == []
