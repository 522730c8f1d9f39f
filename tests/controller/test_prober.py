"""Heads are asked beside the work: one question each at a time, a silent one delays no other."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.controller.ray_heads import RayHeads
from trainshed_api.names import SNAPSHOT_LINE
from trainshed_api.snapshot import Snapshot
from trainshed_controller.model import Key
from trainshed_controller.prober import Prober, ProbeTimeouts
from trainshed_controller.ray_queries import Question, RaysWord

WORD = Snapshot(time=1.0, attempt=1, state="Ended", outcome="Failed", exit_code=1)
NOBODY = RaysWord()
BRIEF = ProbeTimeouts(first=0.2, next=0.05, waiting=0.3)


def about(number: int, *, cluster: str = "trainshed", ends: bool = False) -> Question:
    """Return a question about one of many runs."""
    key = Key("run", "team", f"run-{number}")
    kind = "last word" if ends else "is over"
    return Question(kind, key, f"uid-{number}", 1, cluster, f"job-{number}")  # type: ignore[arg-type]  # one of both


@dataclass
class Asking:
    """A prober, what it told, and its clock."""

    heads: RayHeads
    told: list[Key] = field(default_factory=list)
    now: float = 0.0

    def start(
        self, patience: ProbeTimeouts = BRIEF, clock: Callable[[], float] | None = None
    ) -> Prober:
        """Return a prober."""
        self.prober = Prober(
            self.heads.client, self.told.append, patience, clock or (lambda: self.now)
        )
        return self.prober

    async def until_told(self, number: int) -> None:
        """Wait until so many keys were told."""
        async with asyncio.timeout(30):
            while len(self.told) < number:
                await asyncio.sleep(0.005)


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    """Heads that answer, and somebody who asks them."""
    async with RayHeads() as heads:
        setting = Asking(heads)
        setting.start()
        yield setting
        await setting.prober.close()


async def test_a_run_is_looked_at_when_the_answer_is_there(asking: Asking) -> None:
    asking.heads.jobs["job-1"] = {"status": "RUNNING"}

    assert asking.prober.ask(about(1)) is None
    await asking.until_told(1)

    assert asking.told == [Key("run", "team", "run-1")]
    assert asking.prober.ask(about(1)) == RaysWord(over=False)


async def test_a_last_word_is_asked_for_once(asking: Asking) -> None:
    asking.heads.logs["job-1"] = f"words\n{SNAPSHOT_LINE}{WORD.to_line()}\n"
    asking.prober.ask(about(1, ends=True))
    await asking.until_told(1)
    asking.now += 1000

    assert asking.prober.ask(about(1, ends=True)) == RaysWord(last_word=WORD)
    assert len(asking.heads.asked) == 1


async def test_what_may_change_is_asked_for_again_and_holds_until_then(asking: Asking) -> None:
    asking.heads.jobs["job-1"] = {"status": "RUNNING"}
    asking.prober.ask(about(1))
    await asking.until_told(1)
    asking.heads.jobs["job-1"] = {"status": "STOPPED"}

    asking.now += 1.0
    soon = asking.prober.ask(about(1))
    asking.now += 2.0
    later = asking.prober.ask(about(1))
    await asking.until_told(2)

    assert (soon, later) == (RaysWord(over=False), RaysWord(over=False))
    assert asking.prober.ask(about(1)) == RaysWord(over=True)
    asking.now += 1000
    asking.prober.ask(about(1))
    assert len(asking.heads.asked) == 2


async def test_somebody_who_asks_again_and_again_waits_for_one_answer(asking: Asking) -> None:
    for _ in range(20):
        asking.prober.ask(about(1))
    await asking.until_told(1)

    assert len(asking.heads.asked) == 1


async def test_one_head_has_one_request_at_a_time_and_all_have_eight(asking: Asking) -> None:
    for number in range(40):
        asking.prober.ask(about(number, cluster=f"ray-{number % 20}"))
    await asking.until_told(40)

    busy = asking.heads.most_busy
    assert max(number for name, number in busy.items() if name) == 1
    assert busy[""] <= 8


async def test_a_silent_head_keeps_nobody_else_waiting() -> None:
    async with RayHeads(silent={"deaf"}) as heads:
        setting = Asking(heads)
        prober = setting.start(ProbeTimeouts(first=60.0))
        for number in range(50):
            prober.ask(about(number, cluster="deaf"))
        await heads.until_asked(1)

        prober.ask(about(99))
        await setting.until_told(1)

        assert setting.told == [Key("run", "team", "run-99")]
        await prober.close()


async def test_what_a_silent_head_is_asked_ends_unanswered() -> None:
    async with RayHeads(silent={"deaf"}) as heads:
        setting = Asking(heads)
        prober = setting.start(BRIEF, time.monotonic)
        questions = [about(number, cluster="deaf", ends=True) for number in range(50)]
        for question in questions:
            prober.ask(question)
        await setting.until_told(50)

        assert {prober.ask(question) for question in questions} == {NOBODY}
        # Those at the end of so long a queue were given up without having been asked.
        assert len(heads.asked) < 50
        await prober.close()


async def test_a_head_that_answers_again_is_asked_all_that_waits(asking: Asking) -> None:
    asking.heads.silent.add("trainshed")
    asking.start(ProbeTimeouts(first=0.2))
    for number in range(5):
        asking.prober.ask(about(number))
    await asking.until_told(1)
    asking.heads.silent.clear()
    await asking.until_told(5)

    assert asking.prober.ask(about(0)) == NOBODY
    assert asking.prober.ask(about(4)) == RaysWord(over=True)


async def test_what_is_forgotten_tells_nobody(asking: Asking) -> None:
    asking.prober.ask(about(1))
    asking.prober.forget("uid-1")
    asking.prober.ask(about(2))
    await asking.until_told(1)

    assert asking.told == [Key("run", "team", "run-2")]
    assert len(asking.prober) == 1


async def test_the_question_about_a_later_attempt_takes_the_place_of_the_one_before(
    asking: Asking,
) -> None:
    first = about(1)
    asking.prober.ask(first)
    await asking.until_told(1)
    second = Question("is over", first.run, first.uid, 2, "trainshed", "job-2")

    assert asking.prober.ask(second) is None
    assert len(asking.prober) == 1


async def test_a_driver_that_has_to_end_is_stopped_and_asked_for_again(asking: Asking) -> None:
    asking.heads.jobs["job-1"] = {"status": "RUNNING"}
    question = replace(about(1), kind="stop")

    asking.prober.ask(question)
    await asking.until_told(1)
    running = asking.prober.ask(question)
    asking.now += 10.0
    asking.prober.ask(question)
    await asking.until_told(2)

    assert running == RaysWord(over=False)
    assert asking.prober.ask(question) == RaysWord(over=True)
