"""A driver: posts, trains, and by its fate stalls, falls silent, crashes or ends well."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, get_args

from tests.simulation.clock import monotonic, now
from tests.simulation.port import Said
from trainshed_api.names import (
    EXIT_APPLICATION,
    EXIT_INVALID,
    EXIT_SUCCEEDED,
    EXIT_TERMINATED,
    EXIT_TRY_AGAIN,
    SNAPSHOT_LINE,
    FailureCause,
    Outcome,
)
from trainshed_api.progress import Progress
from trainshed_api.snapshot import Answer, Snapshot

Fate = Literal[
    "ends well", "does not say its end", "crashes", "is killed", "is taken", "is invalid",
    "runs out of memory", "stalls", "is silent", "hangs", "ignores stops",
]  # fmt: skip
FATES = get_args(Fate)
WELL: tuple[Fate, ...] = ("ends well", "does not say its end")
_KILLED = -9
_CODES: dict[Fate, tuple[int, FailureCause]] = {
    "crashes": (EXIT_APPLICATION, "Application"),
    "is taken": (EXIT_TRY_AGAIN, "Infrastructure"),
    "is invalid": (EXIT_INVALID, "Invalid"),
    "runs out of memory": (EXIT_APPLICATION, "OutOfMemory"),
}
_POST_SECONDS, _CHECKPOINT_SECONDS = 15.0, 60.0
Post = Callable[[str], Awaitable[Said]]


@dataclass
class Training:
    """What of a run outlives its attempts: the checkpoint."""

    seconds: float
    saved: float = 0.0


class Driver:
    """One attempt's program.

    Attributes:
        excuse: why the controller may end it; empty for one that is to be left alone.
        was_passed_over: whether another attempt was begun while nobody could be asked for it.
        began: when it began to train; None before.
        says: fields of its snapshots that a script sets.
    """

    def __init__(
        self, attempt: int, fate: Fate, training: Training, chance: random.Random, post: Post
    ) -> None:
        self.attempt, self.fate = attempt, fate
        self._training, self._chance, self._post = training, chance, post
        self.log = ""
        self.excuse = ""
        self.says: dict[str, object] = {}
        self.alive = self.was_passed_over = False
        self.began: float | None = None
        self._stop = asyncio.Event()
        self._gone = False
        self._sequence = 0
        self._done = training.saved

    @property
    def is_healthy(self) -> bool:
        """Whether nobody has a reason to end it."""
        trains = self.began is not None and monotonic() - self.began > 2 * _POST_SECONDS
        return self.alive and trains and self.fate in WELL and not self.excuse

    def terminate(self) -> None:
        """Take SIGTERM."""
        if self.fate not in ("hangs", "ignores stops"):
            self._stop.set()

    async def live(self) -> int:
        """Return the exit code."""
        self.alive = True
        try:
            return await self._live()
        finally:
            self.alive = False

    async def _live(self) -> int:
        await self._tell("Starting")
        await self._nap(self._chance.uniform(1.0, 30.0))
        self.began = monotonic()
        doom = self._chance.uniform(0.0, 1.0) * self._training.seconds
        while not self._stop.is_set() and self._done < self._training.seconds:
            if self.fate not in (*WELL, "is silent", "ignores stops") and self._done >= doom:
                return await self._meet_fate()
            await self._tell("Training")
            await self._nap(_POST_SECONDS)
            self._done += _POST_SECONDS
            if self._done - self._training.saved >= _CHECKPOINT_SECONDS:
                self._training.saved = self._done
        if self._stop.is_set():
            return await self._wind_up()
        self._training.saved = self._done
        return await self._end("Succeeded", EXIT_SUCCEEDED)

    async def _meet_fate(self) -> int:
        if self.fate == "is killed":
            return _KILLED
        if self.fate == "hangs":
            await asyncio.Event().wait()
        while self.fate == "stalls" and not self._stop.is_set():
            await self._tell("Training")
            await self._nap(_POST_SECONDS)
        if self._stop.is_set():
            return await self._wind_up()
        code, cause = _CODES[self.fate]
        return await self._end("Failed", code, cause)

    async def _wind_up(self) -> int:
        await self._tell("Stopping")
        await asyncio.sleep(0.0 if self._gone else self._chance.uniform(0.5, 15.0))
        self._training.saved = self._done
        return await self._end("Stopped", EXIT_TERMINATED)

    async def _end(self, outcome: Outcome, code: int, cause: FailureCause | None = None) -> int:
        # From here on it is over, whatever anybody wants.
        self.excuse = self.excuse or "it ends"
        word = {"outcome": outcome, "exit_code": code, "cause": cause}
        said = self._snapshot("Ended").model_copy(update=word)
        self.log = f"training\n{SNAPSHOT_LINE}{said.to_line()}\n"
        if self.fate not in ("does not say its end", "is silent"):
            for _ in range(3):
                answer = await self._post(said.to_line())
                if answer.status in (200, 410):
                    break
                await asyncio.sleep(1.0)
        return code

    async def _tell(self, state: str) -> None:
        if self.fate == "is silent":
            return
        said = self._snapshot(state)
        answer = await self._post(said.to_line())
        if answer.status == 410:
            self._gone = True
            self._stop.set()
        elif answer.status == 200 and Answer.model_validate_json(answer.text).stop:
            self.terminate()

    def _snapshot(self, state: str) -> Snapshot:
        at = now().timestamp()
        self._sequence += 1
        step = int(self._done)
        progress = Progress(time=at, step=step, steps=int(self._training.seconds), loss=0.5)
        said = Snapshot(
            time=at,
            sequence=self._sequence,
            attempt=self.attempt,
            state=state,  # type: ignore[arg-type]  # one of the literals
            progress=None if state == "Starting" else progress,
        )
        return said.model_copy(update=self.says)

    async def _nap(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
