"""What befalls the shared cluster and the API server: heads die, dashboards fall silent."""

import asyncio

from tests.simulation.clock import monotonic
from tests.simulation.wire import Weather
from tests.simulation.world import CLUSTER, World

_STORM = Weather(fault=0.1, crash=0.006, slow=0.1)


class Nature:
    """Args:
    world: what it befalls.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance("nature")
        self._count = 0

    async def act(self) -> None:
        """Let one thing happen after the other, until cancelled; then all is well again."""
        deeds = (self._kill_the_head, self._silence_the_head, self._darken, self._clear)
        self._world.weather, self._world.is_stormy = _STORM, True
        try:
            while True:
                await asyncio.sleep(self._chance.expovariate(1 / 400.0))
                await self._chance.choice(deeds)()
        finally:
            self.calm_down()

    def calm_down(self) -> None:
        """Let all be well."""
        self._world.weather, self._world.is_stormy = Weather(), False
        self._speak()
        head = self._world.heads.of[CLUSTER]
        if not head.alive:
            self._bring_a_head()

    async def _kill_the_head(self) -> None:
        why = self._chance.choice(("Error", "OOMKilled"))
        self._tell(f"the head dies: {why}")
        self._world.kill_head(why)
        await asyncio.sleep(self._chance.choice((3.0, 30.0, 400.0)))
        self._bring_a_head()

    def _bring_a_head(self) -> None:
        self._count += 1
        self._tell("a head is there")
        self._world.put_head(another_pod=self._chance.random() < 0.5)

    async def _silence_the_head(self) -> None:
        self._tell("the head's dashboard is silent")
        self._world.heads.of[CLUSTER].answers = False
        await asyncio.sleep(self._chance.choice((20.0, 200.0, 700.0)))
        self._speak()

    def _speak(self) -> None:
        head = self._world.heads.of[CLUSTER]
        if not head.answers:
            self._tell("the head's dashboard answers")
            head.answers, head.answers_since = True, monotonic()

    async def _darken(self) -> None:
        self._tell("the API server is away")
        self._world.weather = Weather(dark=True)
        await asyncio.sleep(self._chance.choice((10.0, 60.0, 400.0)))
        self._world.weather = _STORM
        self._tell("the API server is there")

    async def _clear(self) -> None:
        self._tell("all requests succeed for a while")
        self._world.weather = Weather()
        await asyncio.sleep(self._chance.choice((60.0, 600.0)))
        self._world.weather = _STORM

    def _tell(self, what: str) -> None:
        self._world.story.tell("nature", what)
