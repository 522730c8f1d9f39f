"""Storms and calms in turn: in a storm all may fail, in a calm all has to settle."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.simulation.clock import monotonic
from tests.simulation.nature import Nature
from tests.simulation.users import Users, status_of
from tests.simulation.world import NUM_PODS, World
from trainshed_api.json_object import as_object
from trainshed_api.status import TrainingRunStatus

_STORM_SECONDS = 3600.0
_LOOK_SECONDS = 30.0
# How long the first in the queue may wait beside free room: pauses after failures are 300 s.
_PATIENCE_SECONDS = 900.0
# What a run needs besides its training, at most, and what all need once.
_EACH_SECONDS, _ONCE_SECONDS = 900.0, 4000.0


class BrokenError(AssertionError):
    """Something happened that must not, and what came before it."""


class Play:
    """Args:
    seed: the same one plays the same.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self._users = Users(self.world)
        self._nature = Nature(self.world)
        self.num_episodes = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have a controller run meanwhile."""
        serving = asyncio.create_task(self.world.serve())
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def episode(self) -> None:
        """Play a storm and a calm. Raises BrokenError."""
        self.num_episodes += 1
        deeds = [asyncio.create_task(part.act()) for part in (self._users, self._nature)]
        end = monotonic() + _STORM_SECONDS
        while monotonic() < end:
            await asyncio.sleep(_LOOK_SECONDS)
            self._check()
        for deed in deeds:
            deed.cancel()
        await asyncio.gather(*deeds, return_exceptions=True)
        self._users.leave()
        self.world.story.tell("play", "calm")
        while not (self.world.process and self.world.process.is_ready):
            await asyncio.sleep(_LOOK_SECONDS)
        await self._settle()
        self.world.clean_up()

    def _check(self) -> None:
        if self.world.book.faults:
            story = self.world.story.end(200)
            faults = "\n".join(self.world.book.faults)
            again = f"make soak SEED={self.seed} EPISODES={self.num_episodes}"
            raise BrokenError(f"{story}\n\n{faults}\n\nagain: {again}")

    # ---------------------------------------------------------------- calm

    async def _settle(self) -> None:
        """Wait until every run has ended, and nothing of any is left."""
        unsettled = self._unsettled()
        left = sum(
            training.seconds - training.saved
            for name in unsettled
            if (training := self.world.training_of(name))
        )
        end = monotonic() + left + _EACH_SECONDS * len(unsettled) + _ONCE_SECONDS
        fits_since: dict[str, float] = {}
        while unsettled := self._unsettled():
            self.world.end_hung()
            if monotonic() > end:
                states = {name: status_of(self.world, name).phase for name in unsettled}
                self.world.book.blame(f"not settled: {states}")
            first = self._first_that_fits()
            fits_since = {first: fits_since.get(first, monotonic())} if first else {}
            for name, since in fits_since.items():
                if monotonic() - since > _PATIENCE_SECONDS:
                    self.world.book.blame(f"{name} waits beside free room")
            self._check()
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.sleep(600.0)
        for name in self.world.live_jobs():
            self.world.book.blame(f"RayJob {name} is left of a run that is over")
        self._check()

    def _unsettled(self) -> list[str]:
        names = self.world.server.names("trainingruns")
        return [name for name in names if not status_of(self.world, name).completion_time]

    def _first_that_fits(self) -> str:
        """Return who is the first in the queue, if there are as many Pods as it can ever need."""
        waiting, free = [], NUM_PODS
        for name in self._unsettled():
            raw = as_object(self.world.server.peek("trainingruns", name))
            spec, metadata = as_object(raw["spec"]), as_object(raw["metadata"])
            count = int(str(as_object(spec.get("workers")).get("count", 1)))
            # A driver that was given up and that nobody reached to stop it needs its room still.
            is_there = self.world.has_driver(str(metadata["uid"]))
            if is_there or _holds(status_of(self.world, name)):
                free -= min(count, NUM_PODS)
            else:
                priority = int(str(spec.get("priority", 0)))
                created = str(metadata["creationTimestamp"])
                waiting.append((-priority, created, str(metadata["uid"]), name, count))
        if not waiting:
            return ""
        *_, name, count = min(waiting)
        return name if count <= free else ""


def _holds(status: TrainingRunStatus) -> bool:
    return bool(status.attempts) and status.attempts[-1].outcome is None
