"""What is seen of a run: without waiting for any head, and no longer than somebody reads it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from tests.builders import make_document
from tests.controller.api_server import ApiServer
from tests.controller.builders_view import (
    SETTINGS,
    make_cluster,
    make_head,
    make_snapshot,
    raw_pod,
)
from tests.controller.ray_heads import RayHeads
from trainshed_api.json_object import as_object
from trainshed_api.names import SNAPSHOT_LINE
from trainshed_api.snapshot import Snapshot
from trainshed_api.status import AttemptStatus, TrainingRunStatus
from trainshed_controller.cache import Cache
from trainshed_controller.decide import decide
from trainshed_controller.model import Key, Observed, RunView
from trainshed_controller.observe import Observer
from trainshed_controller.prober import Prober
from trainshed_controller.views import read_job, read_run

WORD = Snapshot(
    time=1.0, attempt=1, state="Ended", outcome="Failed", exit_code=1, message="KeyError: 'x'"
)
OPEN = AttemptStatus(
    number=1,
    generation=1,
    ray_job="digits-1",
    job_id="job-1",
    ray_cluster="trainshed",
    start_time=datetime(2026, 11, 21, 12, 0, tzinfo=UTC),
)


@dataclass
class Sight:
    """An observer of a run in its first attempt, whose job has failed."""

    server: ApiServer
    heads: RayHeads
    told: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = Cache(SETTINGS)
        self.cache.clusters.put(make_cluster())
        self.cache.pods.put(make_head())
        self.prober = Prober(self.heads.client, self.told.append)
        self.observer = Observer(self.cache, self.server.connect(), self.prober, SETTINGS)
        document = make_document()
        document["metadata"] = {"name": "digits", "namespace": "team"}
        self.uid = read_run(self.server.put("trainingruns", document)).uid
        self.write(OPEN)
        self.tell_of_job("FAILED")

    @property
    def view(self) -> RunView:
        """Return the run as the cache has it."""
        view = self.cache.runs.get("team", "digits")
        assert view
        return view

    def write(self, *attempts: AttemptStatus) -> None:
        """Have the run's status say so."""
        status = TrainingRunStatus(attempts=attempts, attempt=len(attempts), phase="Running")
        raw = as_object(self.server.get("trainingruns", "digits"))
        raw["status"] = status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        self.cache.runs.put(read_run(self.server.put("trainingruns", raw)))

    def tell_of_job(self, job_status: str) -> None:
        """Have the RayJob say so."""
        raw = self.server.put(
            "rayjobs",
            {
                "metadata": {
                    "name": "digits-1",
                    "ownerReferences": [{"uid": self.uid, "controller": True}],
                },
                "status": {"jobStatus": job_status, "rayClusterName": "trainshed"},
            },
        )
        self.cache.jobs.put(read_job(raw))

    async def see(self) -> Observed:
        """Look; who waits for a head here fails."""
        async with asyncio.timeout(5):
            return await self.observer.see(self.view, None)

    async def until_told(self) -> None:
        """Wait for an answer of the head."""
        async with asyncio.timeout(30):
            while not self.told:
                await asyncio.sleep(0.005)


@pytest.fixture
async def sight() -> AsyncIterator[Sight]:
    """A run whose job failed, beside a head that knows of it."""
    async with RayHeads(logs={"job-1": f"words\n{SNAPSHOT_LINE}{WORD.to_line()}\n"}) as heads:
        sight = Sight(ApiServer(), heads)
        yield sight
        await sight.prober.close()


async def test_a_last_word_is_waited_for_and_then_explains_the_end(sight: Sight) -> None:
    before = await sight.see()
    waits = decide(sight.view, before, SETTINGS, datetime.now(UTC))
    await sight.until_told()
    after = await sight.see()
    ends = decide(sight.view, after, SETTINGS, datetime.now(UTC))

    assert (before.asking, before.snapshot) == (True, None)
    assert waits.status.attempts[-1].outcome is None
    assert (after.asking, after.snapshot) == (False, WORD)
    assert ends.status.attempts[-1].message == "KeyError: 'x'"


async def test_the_head_that_has_a_job_is_asked_for_where_the_watch_is_late(sight: Sight) -> None:
    sight.write(OPEN.model_copy(update={"head_identity": ""}))
    sight.server.put("pods", raw_pod(make_head("c2")))  # what is known is the one before

    seen = await sight.see()
    known = decide(sight.view, seen, SETTINGS, datetime.now(UTC)).status.attempts[-1]

    assert known.head_identity.endswith("/c2")


async def test_where_a_head_does_not_know_the_end_is_judged_without_it(sight: Sight) -> None:
    sight.heads.logs.clear()
    await sight.see()
    await sight.until_told()

    seen = await sight.see()

    assert (seen.asking, seen.snapshot) == (False, None)
    ending = decide(sight.view, seen, SETTINGS, datetime.now(UTC)).status.attempts[-1]
    assert ending.outcome == "Infrastructure"


async def test_the_last_word_of_another_attempt_is_none(sight: Sight) -> None:
    other = WORD.model_copy(update={"attempt": 7})
    sight.heads.logs["job-1"] = f"{SNAPSHOT_LINE}{other.to_line()}\n"
    await sight.see()
    await sight.until_told()

    assert (await sight.see()).snapshot is None


async def test_a_head_that_never_answers_is_not_waited_for(sight: Sight) -> None:
    sight.heads.silent.add("trainshed")

    for _ in range(5):
        assert (await sight.see()).asking

    await sight.heads.until_asked(1)
    assert len(sight.heads.asked) == 1


async def test_until_a_head_says_that_a_lost_job_is_over_no_other_begins(sight: Sight) -> None:
    ended = {"end_time": OPEN.start_time, "outcome": "Infrastructure", "reason": "HeadLost"}
    sight.write(OPEN.model_copy(update=ended))
    sight.server.drop("rayjobs", "digits-1")
    job = sight.cache.jobs.get("team", "digits-1")
    assert job
    sight.cache.jobs.drop(job)

    first = await sight.see()
    await sight.until_told()
    second = await sight.see()

    assert (first.asking, first.over) == (True, None)
    assert (second.asking, second.over) == (False, True)


async def test_what_a_driver_said_is_kept_no_longer_than_its_attempt(sight: Sight) -> None:
    sight.tell_of_job("RUNNING")
    sight.observer.snapshots.put(sight.uid, make_snapshot())
    assert (await sight.see()).heard.num_snapshots == 1

    sight.write(OPEN.model_copy(update={"outcome": "Stopped", "exit_code": 0}))
    seen = await sight.see()

    assert seen.snapshot is None
    assert len(sight.observer.snapshots) == 0
    assert len(sight.prober) == 0


async def test_of_a_run_that_is_gone_nothing_is_kept(sight: Sight) -> None:
    await sight.see()
    sight.observer.snapshots.put(sight.uid, make_snapshot())

    sight.observer.forget(sight.uid)

    assert (len(sight.observer.snapshots), len(sight.prober)) == (0, 0)


async def test_another_attempts_words_are_not_this_ones(sight: Sight) -> None:
    sight.tell_of_job("RUNNING")
    sight.observer.snapshots.put(sight.uid, make_snapshot(7))

    seen = await sight.see()

    assert (seen.snapshot, seen.heard.num_snapshots) == (None, 0)
    assert replace(seen.heard, silent_seconds=0.0) == Observed().heard
