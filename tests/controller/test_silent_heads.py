"""Heads that are silent for long, in virtual time: what they cost others, and for how long."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tests.simulation.clock import monotonic
from tests.simulation.heads import Head, Heads
from tests.simulation.loop import run_virtually
from trainshed_controller.model import Key
from trainshed_controller.prober import Prober, ProbeTimeouts
from trainshed_controller.ray_queries import Question, RaysWord

if TYPE_CHECKING:
    from trainshed_controller.jobs import JobsApi

NOBODY, OVER = RaysWord(), RaysWord(over=True)
SILENT = [f"silent-{number}" for number in range(100)]
PATIENCE = ProbeTimeouts()


def about(cluster: str, number: int = 0) -> Question:
    """Return a question to a head, about one of its runs."""
    name = f"{cluster}-{number}"
    return Question("is over", Key("run", "team", name), name, 1, cluster, "job")


@dataclass
class Asking:
    """A prober, and the moments at which questions were answered or given up."""

    heads: Heads = field(default_factory=Heads)
    answered: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        jobs = cast("JobsApi", self.heads)
        self.prober = Prober(jobs, self._hear, PATIENCE, clock=monotonic)

    def _hear(self, key: Key) -> None:
        self.answered[key.name] = monotonic()

    def let_answer(self, cluster: str) -> None:
        """Have a head answer from now on."""
        self.heads.of[cluster] = Head("one", answers_since=0.0)

    async def ask(self, *questions: Question) -> dict[str, float]:
        """Ask all of it; return by run the seconds until it was answered or given up."""
        self.answered.clear()
        began = monotonic()
        for question in questions:
            self.prober.ask(question)
        while len(self.answered) < len(questions):
            await asyncio.sleep(0.01)
        return {name: at - began for name, at in self.answered.items()}

    async def know_silent(self, clusters: list[str]) -> None:
        """Ask until each of the heads is known to be silent."""
        for first in range(0, len(clusters), 8):
            await self.ask(*[about(cluster, -1) for cluster in clusters[first : first + 8]])


def virtually(play: Callable[[Asking], Awaitable[None]]) -> None:
    """Play it."""

    async def main() -> None:
        asking = Asking()
        await play(asking)
        await asking.prober.close()

    run_virtually(main())


def test_heads_that_are_known_to_be_silent_keep_no_other_waiting() -> None:
    async def play(asking: Asking) -> None:
        asking.let_answer("healthy")
        await asking.know_silent(SILENT)

        took = await asking.ask(*map(about, SILENT), about("healthy"))

        assert took["healthy-0"] < 1.0
        assert asking.prober.ask(about("healthy")) == OVER

    virtually(play)


def test_a_head_that_was_silent_is_waited_for_briefly_the_next_time() -> None:
    async def play(asking: Asking) -> None:
        first = await asking.ask(about("silent"))
        second = await asking.ask(about("silent", 1))

        assert first["silent-0"] >= PATIENCE.first
        assert second["silent-1"] < PATIENCE.next + 1.0

    virtually(play)


def test_a_head_that_answers_again_is_waited_for_as_any_other() -> None:
    async def play(asking: Asking) -> None:
        await asking.know_silent(["restarted"])
        asking.let_answer("restarted")
        answered = await asking.ask(about("restarted"))
        del asking.heads.of["restarted"]
        silent = await asking.ask(about("restarted", 1))

        assert answered["restarted-0"] < 1.0
        assert silent["restarted-1"] >= PATIENCE.first

    virtually(play)


def test_a_question_is_given_up_in_time_also_while_it_waits_for_a_slot() -> None:
    async def play(asking: Asking) -> None:
        took = await asking.ask(*map(about, SILENT))

        assert max(took.values()) < PATIENCE.waiting + 1.0
        assert {asking.prober.ask(about(cluster)) for cluster in SILENT} == {NOBODY}

    virtually(play)


def test_questions_to_one_silent_head_are_given_up_in_time() -> None:
    async def play(asking: Asking) -> None:
        took = await asking.ask(*[about("silent", number) for number in range(100)])

        assert max(took.values()) < PATIENCE.waiting + 1.0

    virtually(play)
