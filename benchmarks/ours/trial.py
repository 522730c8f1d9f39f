"""What the controller is put through: a crowd, rest, one run at a time, many that tell of them."""

from __future__ import annotations

import asyncio
import base64
import random
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.api_server import all_at_once
from benchmarks.ours.controller import KEY_SECRET, Stream, run_controller
from benchmarks.ours.objects import make_cluster, make_run
from tests.control_plane.objects import RUNS
from tests.control_plane.world import until
from tests.kuberay.api import CLUSTERS, JOBS, SECRETS, KubeApi
from trainshed_api.json_object import as_object
from trainshed_api.status import TrainingRunStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.measure import Sample
    from tests.kuberay.resources import Manifest

NAMESPACE = "benchmark"
SECONDS_BETWEEN_SNAPSHOTS = 5.0
ENDS_A_SECOND = 5
# All runs begin to train and step first at once, more than any claim is about: with 500 of them
# 1,000 transitions, then a turn for each.
SECONDS_TO_SETTLE = 60.0
SECONDS_AT_REST = 30.0
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Size:
    """How many runs there are of which sort, and for how many seconds they tell of themselves."""

    single: int
    crowd: int
    streams: int
    seconds: float


class Trial:
    """One run of everything, on an API server of its own."""

    def __init__(self, kubeconfig: Path, folder: Path, size: Size) -> None:
        self._kubeconfig = kubeconfig
        self._log = folder / "controller.log"
        self._size = size
        self._appeared: dict[str, float] = {}

    async def run(self) -> Sample:
        """Return all figures."""
        self._api = await KubeApi.connect(self._kubeconfig)
        async with self._api:
            await self._api.create(CLUSTERS, NAMESPACE, make_cluster())
            watching = asyncio.create_task(self._watch_jobs())
            try:
                return await self._measure()
            finally:
                watching.cancel()

    async def _measure(self) -> Sample:
        crowd = [f"crowd-{number}" for number in range(self._size.crowd)]
        await all_at_once(self._create, crowd)
        async with run_controller(self._kubeconfig, NAMESPACE, self._log) as controller:
            self._controller, self._key = controller, await self._read_key()
            sample = await self._go_through(crowd)
            await self._finish(await self._streams(crowd))
            sample |= {"idleCpu": await self._cpu_at_rest(), "p99": await self._one_by_one()}
            sample["memory"] = controller.resident_megabytes()
            streams = [f"stream-{number}" for number in range(self._size.streams)]
            await all_at_once(self._create, streams)
            await self._until_there(streams)
            sample |= await self._listen(await self._streams(streams))
            sample["memory"] = max(sample["memory"], controller.resident_megabytes())
            return sample

    async def _go_through(self, names: Sequence[str]) -> Sample:
        """Return how fast runs that were there first got their RayJobs, and at what cost."""
        await self._until_there(names)
        times = sorted(self._appeared[f"{name}-1"] for name in names)
        return {
            "rate": (len(times) - 1) / (times[-1] - times[0]),
            "creates": await self._controller.counter("trainshed_attempts_total") / len(names),
            "writes": await self._controller.counter("trainshed_status_writes_total") / len(names),
        }

    async def _cpu_at_rest(self) -> float:
        await asyncio.sleep(SECONDS_BETWEEN_SNAPSHOTS)
        before = self._controller.cpu_seconds()
        await asyncio.sleep(SECONDS_AT_REST)
        return 100 * (self._controller.cpu_seconds() - before) / SECONDS_AT_REST

    async def _one_by_one(self) -> float:
        waits = []
        for number in range(self._size.single):
            name = f"single-{number}"
            began = time.monotonic()
            await self._create(name)
            await self._until_there([name])
            waits.append(self._appeared[f"{name}-1"] - began)
            await asyncio.sleep(0.2)
        return statistics.quantiles(waits, n=100)[98]

    async def _listen(self, streams: Sequence[Stream]) -> Sample:
        """Have all runs tell how they do while some end, and count what becomes of it."""
        await all_at_once(self._set_running, streams)
        await all_at_once(Stream.tell, streams)
        await self._until_all([stream.name for stream in streams], is_running)
        began = time.monotonic() + SECONDS_TO_SETTLE
        end = began + self._size.seconds
        order = random.Random(0).sample(list(streams), len(streams))
        ending = order[: int(ENDS_A_SECOND * self._size.seconds)][: len(order) // 2]
        reporting = {
            stream.name: asyncio.create_task(self._tell_until(stream, end)) for stream in order
        }
        await asyncio.sleep(began - time.monotonic())
        looking = asyncio.create_task(self._look_for_the_oldest(order, reporting, end))
        writes = await self._controller.counter("trainshed_status_writes_total")
        for number, stream in enumerate(ending, 1):
            await asyncio.sleep(began + number / ENDS_A_SECOND - time.monotonic())
            reporting.pop(stream.name).cancel()
            await self._end(stream)
        await asyncio.gather(*reporting.values())
        writes = await self._controller.counter("trainshed_status_writes_total") - writes
        rate = writes / (time.monotonic() - began)
        await self._until_all([stream.name for stream in ending], is_complete)
        statuses = await self._statuses()
        lost = sum(_last_step(statuses[stream.name]) != stream.step for stream in ending)
        return {"streamWrites": rate, "oldest": await looking, "lost": lost}

    async def _look_for_the_oldest(
        self, streams: Sequence[Stream], reporting: Mapping[str, object], end: float
    ) -> float:
        """Return the age of the oldest progress of a run that tells, of five looks until the end.

        The first is when all of them do. `updatedAt` has whole seconds: what counts is when the
        step that a status shows was told.
        """
        oldest = 0.0
        for part in (1.0, 0.75, 0.5, 0.25, 0.0):
            await asyncio.sleep(end - part * self._size.seconds - time.monotonic())
            # As old as they are when they are asked for: to read 1,600 runs takes a second.
            now, statuses = time.time(), await self._statuses()
            for stream in streams:
                if stream.name in reporting:
                    step = _last_step(statuses[stream.name])
                    assert step, f"{stream.name} has no progress"
                    oldest = max(oldest, now - stream.told_at[step])
        return oldest

    async def _tell_until(self, stream: Stream, end: float) -> None:
        due = time.monotonic() + random.Random(stream.name).uniform(0, SECONDS_BETWEEN_SNAPSHOTS)
        while due < end:
            await asyncio.sleep(due - time.monotonic())
            await stream.tell()
            due += SECONDS_BETWEEN_SNAPSHOTS

    async def _finish(self, streams: Sequence[Stream]) -> None:
        """Bring all runs to a good end."""
        await all_at_once(self._set_running, streams)
        await all_at_once(self._end, streams)
        await self._until_all([stream.name for stream in streams], is_complete)

    async def _end(self, stream: Stream) -> None:
        await stream.tell(ended=True)
        await self._set_job(stream, "SUCCEEDED", "Complete")

    async def _set_running(self, stream: Stream) -> None:
        await self._set_job(stream, "RUNNING", "Running")

    async def _set_job(self, stream: Stream, job: str, deployment: str) -> None:
        status: Manifest = {"jobStatus": job, "jobDeploymentStatus": deployment}
        change: Manifest = {"status": status | {"rayClusterName": "trainshed"}}
        await self._api.patch(JOBS, NAMESPACE, f"{stream.name}-1", change, part="status")

    async def _streams(self, names: Sequence[str]) -> list[Stream]:
        wanted = set(names)
        found, _ = await self._api.list_all(RUNS, NAMESPACE)
        metadata = [as_object(item["metadata"]) for item in found]
        return [
            Stream(self._controller, self._key, str(data["name"]), str(data["uid"]))
            for data in metadata
            if data["name"] in wanted
        ]

    async def _statuses(self) -> dict[str, TrainingRunStatus]:
        found, _ = await self._api.list_all(RUNS, NAMESPACE)
        return {
            str(as_object(item["metadata"])["name"]): TrainingRunStatus.model_validate(
                item.get("status") or {}
            )
            for item in found
        }

    async def _create(self, name: str) -> None:
        await self._api.create(RUNS, NAMESPACE, make_run(name))

    async def _until_there(self, names: Sequence[str]) -> None:
        """Wait until each of the runs has its RayJob."""
        jobs = {f"{name}-1" for name in names}
        await until(
            lambda: jobs <= self._appeared.keys(),
            PATIENCE_SECONDS,
            lambda: f"{len(jobs - self._appeared.keys())} are missing",
        )

    async def _until_all(
        self, names: Sequence[str], is_so: Callable[[TrainingRunStatus], bool]
    ) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            statuses = await self._statuses()
            left = [name for name in names if not is_so(statuses[name])]
            if not left:
                return
            assert time.monotonic() < deadline, f"{len(left)} do not come, such as {left[0]}"
            await asyncio.sleep(1.0)

    async def _watch_jobs(self) -> None:
        _, version = await self._api.list_all(JOBS, NAMESPACE)
        while True:
            async for kind, job in self._api.watch(JOBS, NAMESPACE, version):
                metadata = as_object(job["metadata"])
                version = str(metadata["resourceVersion"])
                if kind == "ADDED":
                    self._appeared[str(metadata["name"])] = time.monotonic()

    async def _read_key(self) -> bytes:
        secret = await self._api.get(SECRETS, NAMESPACE, KEY_SECRET)
        assert secret
        return base64.b64decode(str(as_object(secret["data"])["key"]))


def is_running(status: TrainingRunStatus) -> bool:
    """Say whether a run trains."""
    return status.phase == "Running"


def is_complete(status: TrainingRunStatus) -> bool:
    """Say whether a run has come to a good end."""
    return status.holds("Complete")


def _last_step(status: TrainingRunStatus) -> int | None:
    return status.progress.step if status.progress else None
