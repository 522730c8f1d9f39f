"""By seed: whatever happens in whatever order, what must never happen does not."""

import pytest

from tests.simulation.loop import run_virtually
from tests.simulation.play import Play


async def play(seed: int, episodes: int) -> Play:
    played = Play(seed)
    async with played.running():
        for _ in range(episodes):
            await played.episode()
    return played


@pytest.mark.parametrize("seed", range(1, 5))
def test_nothing_breaks_that_must_not(seed: int) -> None:
    run_virtually(play(seed, episodes=1))
