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


# Eight hours of storm, and as many of calm: 15 s of one core.
@pytest.mark.parametrize("seed", range(1, 9))
def test_nothing_breaks_that_must_not(seed: int) -> None:
    run_virtually(play(seed, episodes=1))


def test_a_seed_plays_the_same_again() -> None:
    first, second = (run_virtually(play(23, episodes=1)) for _ in range(2))

    assert first.world.story.end() == second.world.story.end()
