"""Drivers that speak to the controller as the real one does: claim, snapshots, stop, last word."""

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

import aiohttp

from tests.kuberay.jobs_api import Driver, LiveJob, Submission
from trainshed_api import names
from trainshed_api.progress import Progress, Seconds
from trainshed_api.records import CheckpointRecord
from trainshed_api.snapshot import Answer, Snapshot

Claim = tuple[str, int]


@dataclass
class Drivers:
    """All drivers of a test, and what storage would know of them.

    steps: of a whole run. step_seconds: for each. fails_at: {attempt: step} raises there. held:
    what those that begin now wait for before their first step. claims: who won each attempt, in
    order; refused: who came second. alive: processes; at_work: those that have not told their end,
    after which the controller may give their room away.
    """

    steps: int = 3
    step_seconds: float = 0.05
    fails_at: dict[int, int] = field(default_factory=dict)
    mute: bool = False
    held: asyncio.Event | None = None
    claims: list[Claim] = field(default_factory=list)
    refused: list[Claim] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    alive: int = 0
    at_work: set[Claim] = field(default_factory=set)
    most_at_work: int = 0

    def choose(self, _: Submission) -> Driver:
        """Return the driver of a submission."""
        return self._drive

    async def _drive(self, job: LiveJob) -> int:
        uid = job.submission.env[names.ENV_UID]
        number = int(job.submission.env[names.ENV_ATTEMPT])
        if (uid, number) in self.claims:
            self.refused.append((uid, number))
            return names.EXIT_TRY_AGAIN
        self.claims.append((uid, number))
        self.alive += 1
        self.at_work.add((uid, number))
        self.most_at_work = max(self.most_at_work, len(self.at_work))
        try:
            return await _Attempt(self, job, uid, number).run()
        finally:
            self.alive -= 1
            self.at_work.discard((uid, number))


class _Attempt:
    def __init__(self, drivers: Drivers, job: LiveJob, uid: str, number: int) -> None:
        self._drivers = drivers
        self._job = job
        self._uid = uid
        self._began = time.time()
        self._step = drivers.kept.get(uid, 0)
        self._told = Snapshot(attempt=number, time=time.time())
        self._stopped = False

    async def run(self) -> int:
        total, held = self._drivers.steps, self._drivers.held
        await self._say(state="Starting")
        if held is not None:
            await held.wait()
        while self._step < total:
            await asyncio.sleep(self._drivers.step_seconds)
            if self._job.stop_requested.is_set() or self._stopped:
                self._keep()
                return await self._end(names.STOPPED, names.EXIT_TERMINATED, "stopped")
            self._step += 1
            if self._drivers.fails_at.get(self._told.attempt) == self._step:
                return await self._end(names.FAILED, 1, f"ValueError: at step {self._step}")
            progress = Progress(
                time=time.time(), epoch=1, epochs=1, step=self._step, steps=total, loss=0.5
            )
            await self._say(state="Training", progress=progress)
        self._keep()
        return await self._end(names.SUCCEEDED, 0, "")

    def _keep(self) -> None:
        self._drivers.kept[self._uid] = self._step

    async def _say(self, **changes: object) -> None:
        now = time.time()
        path = f"checkpoint-{self._drivers.kept.get(self._uid, 0)}"
        self._told = self._told.model_copy(
            update={
                "time": now,
                "sequence": self._told.sequence + 1,
                "seconds": Seconds(training=now - self._began),
                "checkpoint": CheckpointRecord(path=path, step=self._drivers.kept.get(self._uid)),
                **changes,
            }
        )
        if self._drivers.mute:
            return
        env = self._job.submission.env
        headers = {"Authorization": f"Bearer {env[names.ENV_PROGRESS_TOKEN]}"}
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    env[names.ENV_PROGRESS_URL], data=self._told.to_payload(), headers=headers
                ) as answer,
            ):
                if answer.status == 410:
                    self._stopped = True
                elif answer.status == 200:
                    said = Answer.model_validate_json(await answer.text())
                    self._stopped = self._stopped or said.stop is not None

    async def _end(self, outcome: names.Outcome, code: int, message: str) -> int:
        self._drivers.at_work.discard((self._uid, self._told.attempt))
        cause = names.APPLICATION if outcome == names.FAILED else None
        await self._say(
            state="Ended", outcome=outcome, exit_code=code, message=message, cause=cause,
            result="result.json",
        )  # fmt: skip
        self._job.log(f"{names.SNAPSHOT_LINE}{self._told.to_line()}")
        return code
