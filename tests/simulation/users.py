"""People who create runs, suspend, resume, change and delete them."""

import asyncio
import random

from pydantic import JsonValue

from tests.builders import make_document
from tests.simulation.driver import Training
from tests.simulation.world import CORES, NUM_PODS, World
from trainshed_api.json_object import JsonObject, as_object


class Users:
    """Args:
    world: what they act in.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance("users")

    def create(self, name: str, seconds: float = 120.0, **spec: JsonValue) -> str:
        """Create a run that trains for so long; return its uid."""
        document: JsonObject = make_document(**spec)
        document["metadata"] = {"name": name, "namespace": "team"}
        made = self._world.server.put("trainingruns", document)
        uid = str(as_object(made["metadata"])["uid"])
        self._world.trainings[uid] = Training(seconds)
        self._world.tally.runs += 1
        self._world.story.tell("user", f"creates {name}: {spec}")
        return uid
