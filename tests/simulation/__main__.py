"""`python -m tests.simulation`: play for as long as one likes; `make soak`."""

import argparse
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.clock import monotonic
from tests.simulation.loop import run_virtually
from tests.simulation.play import BrokenError, Play

_TELL_SECONDS = 60.0
_WARM_SECONDS = 600.0
_PAGE_BYTES = resource.getpagesize()


def rss_mib() -> float:
    """Return the memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE_BYTES / 2**20


@dataclass
class Soak:
    """What is told of a long play.

    warm: memory after ten minutes, None before.
    """

    began: float
    told: float
    warm: float | None = None

    def tell(self, play: Play) -> None:
        """Print a line a minute."""
        now = time.monotonic()
        if self.warm is None and now - self.began >= _WARM_SECONDS:
            self.warm = rss_mib()
        if now - self.told < _TELL_SECONDS:
            return
        self.told = now
        tally = play.world.tally
        print(
            f"{(now - self.began) / 60:.0f} min: seed {play.seed}, "
            f"{monotonic() / 3600:.1f} virtual hours, {play.num_episodes} episodes, "
            f"{tally.runs} runs, {tally.faults} faults, "
            f"{tally.restarts} restarts, {rss_mib():.0f} MiB",
            flush=True,
        )


async def _play(seed: int, seconds: float, episodes: int, soak: Soak) -> None:
    """Play one world until its time is over, or so many episodes where a number is given."""
    play, end = Play(seed), time.monotonic() + seconds
    async with play.running():
        while play.num_episodes < episodes or (not episodes and time.monotonic() < end):
            await play.episode()
            soak.tell(play)


def main() -> None:
    """Play; a broken rule ends it with the story."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="for all seeds together")
    parser.add_argument("--seeds", default="1,2,3", help="one world each, such as 1,2,3")
    parser.add_argument("--episodes", type=int, default=0, help="play so many of each, not by time")
    told = parser.parse_args()
    seeds = [int(seed) for seed in told.seeds.split(",")]
    now = time.monotonic()
    soak = Soak(began=now, told=now)
    for seed in seeds:
        try:
            run_virtually(_play(seed, told.seconds / len(seeds), told.episodes, soak))
        except BrokenError as error:
            sys.exit(str(error))
    warm = "not reached" if soak.warm is None else f"{soak.warm:.0f} MiB"
    print(f"nothing broke; memory after ten minutes: {warm}, at the end: {rss_mib():.0f} MiB")


if __name__ == "__main__":
    main()
