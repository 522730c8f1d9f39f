"""Asks Ray heads beside the work: nobody waits for one that does not answer.

One request at a time for each RayCluster, and a few in all; a run is looked at again when there is
an answer to its question. A head that is silent is asked with less patience until it answers, and
heads that are silent leave half of the slots to others. No question waits for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from trainshed_api.snapshot import final_snapshot
from trainshed_controller.ray_queries import RaysWord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from trainshed_controller.jobs import JobsApi
    from trainshed_controller.model import Key
    from trainshed_controller.ray_queries import Question

log = logging.getLogger("trainshed.prober")

_AT_ONCE = 8
_SILENT_AT_ONCE = _AT_ONCE // 2
# Whose silence was forgotten for others' is asked with patience once more.
_MOST_SILENT = 10_000
# What an answer is good for, unless it can never change.
_GOOD_SECONDS = 2.0


@dataclass(frozen=True)
class ProbeTimeouts:
    """Seconds.

    Args:
        first: for an answer.
        next: for an answer of a head that did not answer the question before.
        waiting: from when a question is asked until it is given up; more than next.
    """

    first: float = 10.0
    next: float = 2.0
    waiting: float = 20.0


@dataclass
class _Asked:
    """A question; word: the last answer to it, at: when that came; is_due: another one is."""

    question: Question
    word: RaysWord | None = None
    at: float = 0.0
    is_due: bool = False


Place = tuple[str, str]
"""Namespace and name of a RayCluster."""


@dataclass(eq=False)
class Prober:
    """Asks.

    Args:
        jobs: the heads.
        tell: has a key looked at.
        clock: seconds that only go on.
    """

    jobs: JobsApi
    tell: Callable[[Key], None]
    patience: ProbeTimeouts = ProbeTimeouts()
    clock: Callable[[], float] = time.monotonic
    # By uid of the run, or of a RayJob whose run is gone: there is one question at a time.
    _asked: dict[str, _Asked] = field(default_factory=dict)
    # One for each head that is asked now.
    _locks: WeakValueDictionary[Place, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    # Who did not answer the last question, longest first.
    _silent: dict[Place, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._silent_slots = asyncio.Semaphore(_SILENT_AT_ONCE)

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, question: Question) -> RaysWord | None:
        """Return what is known of the answer; None while there is none yet.

        An answer that may change is asked for again when it is old, and holds until then.
        """
        asked = self._asked.get(question.uid)
        if asked is None or asked.question != question:
            asked = self._asked[question.uid] = _Asked(question)
        if not asked.is_due and self._is_old(asked):
            asked.is_due = True
            task = asyncio.create_task(self._answer(asked), name=f"ask {question.cluster}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return asked.word

    def forget(self, uid: str) -> None:
        """Drop the questions about a run; a pending answer is ignored."""
        self._asked.pop(uid, None)

    async def close(self) -> None:
        """Ask no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _is_old(self, asked: _Asked) -> bool:
        if asked.word is None:
            return True
        is_final = asked.question.kind == "last word" or asked.word.over is True
        return not is_final and self.clock() - asked.at >= _GOOD_SECONDS

    async def _answer(self, asked: _Asked) -> None:
        """Ask a head, and have the run looked at; a question that waits for long is given up."""
        question, word = asked.question, None
        place = question.run.namespace, question.cluster
        end = self.clock() + self.patience.waiting
        with contextlib.suppress(TimeoutError):
            # The least that an answer takes is kept of the time.
            async with self._slot(place, self.patience.waiting - self.patience.next):
                if self._asked.get(question.uid) is not asked:
                    return
                patience = self.patience.next if place in self._silent else self.patience.first
                word = await self._put(question, min(patience, end - self.clock()))
                self._remember(place, is_silent=word is None)
        asked.word, asked.at, asked.is_due = word or RaysWord(), self.clock(), False
        if self._asked.get(question.uid) is asked:
            self.tell(question.run)

    @contextlib.asynccontextmanager
    async def _slot(self, place: Place, seconds: float) -> AsyncIterator[None]:
        """Hold a head and one of the slots. Raises TimeoutError if they are not free in time."""
        lock = self._locks.setdefault(place, asyncio.Lock())
        async with contextlib.AsyncExitStack() as held:
            async with asyncio.timeout(seconds):
                await held.enter_async_context(lock)
                if place in self._silent:
                    await held.enter_async_context(self._silent_slots)
                await held.enter_async_context(self._slots)
            yield

    def _remember(self, place: Place, *, is_silent: bool) -> None:
        self._silent.pop(place, None)
        if is_silent:
            self._silent[place] = None
            if len(self._silent) > _MOST_SILENT:
                del self._silent[next(iter(self._silent))]

    async def _put(self, question: Question, seconds: float) -> RaysWord | None:
        """Return the answer; None where nobody answers."""
        where = (question.run.namespace, question.cluster, question.job_id)
        try:
            if question.kind != "last word":
                over = await self.jobs.is_over(*where, seconds)
                if over is False and question.kind == "stop":
                    await self.jobs.stop(*where, seconds)
                return None if over is None else RaysWord(over=over)
            text = await self.jobs.read_log(*where, seconds)
            return None if text is None else RaysWord(last_word=final_snapshot(text))
        except Exception:  # whatever a head answers, it is the affair of this question alone
            log.exception("asking failed", extra={"run": f"{question.run}"})
            return None
