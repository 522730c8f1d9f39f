"""The phases of the controller's benchmark: many runs, no changes, single runs, snapshots."""

from __future__ import annotations

import asyncio
import base64
import random
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.api_server import for_each
from benchmarks.ours.controller import KEY_SECRET, SnapshotStream, run_controller
from benchmarks.ours.manifests import make_cluster, make_run
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
ENDS_PER_SECOND = 5
# All runs start training at once, which no claim is about: 500 runs make 1,000 transitions, and
# then the controller reconciles each of them once more.
SECONDS_TO_SETTLE = 60.0
SECONDS_IDLE = 30.0
TIMEOUT_SECONDS = 120.0
STATUS_WRITES = "trainshed_status_writes_total"


@dataclass(frozen=True)
class Size:
    """Numbers of single runs, of runs at once and with snapshots; seconds of the last phase."""

    single: int
    crowd: int
    streams: int
    seconds: float


class ControllerTrial:
    """All phases, once, on one API server."""

    def __init__(self, kubeconfig: Path, folder: Path, size: Size) -> None:
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._size = size
        self._job_times: dict[str, float] = {}

    async def run(self) -> Sample:
        """Return all values."""
        self._api = await KubeApi.connect(self._kubeconfig)
        async with self._api:
            await self._api.create(CLUSTERS, NAMESPACE, make_cluster())
            watch = asyncio.create_task(self._watch_jobs())
            try:
                return await self._measure()
            finally:
                watch.cancel()

    async def _measure(self) -> Sample:
        crowd = [f"crowd-{number}" for number in range(self._size.crowd)]
        await for_each(crowd, self._create)
        async with run_controller(self._kubeconfig, NAMESPACE, self._folder) as controller:
            secret = await self._api.get(SECRETS, NAMESPACE, KEY_SECRET)
            assert secret
            self._key = base64.b64decode(str(as_object(secret["data"])["key"]))
            self._controller = controller
            sample = await self._start_all(crowd)
            await self._finish(await self._streams(crowd))
            sample |= {"idleCpu": await self._idle_cpu(), "p99": await self._start_one_by_one()}
            memory = controller.resident_megabytes()
            names = [f"stream-{number}" for number in range(self._size.streams)]
            await for_each(names, self._create)
            await self._wait_for_jobs(names)
            sample |= await self._post_snapshots(await self._streams(names))
            return sample | {"memory": max(memory, controller.resident_megabytes())}

    async def _start_all(self, names: Sequence[str]) -> Sample:
        """Return how fast runs that existed before the controller get their RayJobs."""
        await self._wait_for_jobs(names)
        times = sorted(self._job_times[f"{name}-1"] for name in names)
        return {
            "rate": (len(times) - 1) / (times[-1] - times[0]),
            "creates": await self._controller.counter("trainshed_attempts_total") / len(names),
            "writes": await self._controller.counter(STATUS_WRITES) / len(names),
        }

    async def _idle_cpu(self) -> float:
        """Return the CPU of the controller while all runs are finished, in percent of a core."""
        await asyncio.sleep(SECONDS_BETWEEN_SNAPSHOTS)
        before = self._controller.cpu_seconds()
        await asyncio.sleep(SECONDS_IDLE)
        return 100 * (self._controller.cpu_seconds() - before) / SECONDS_IDLE

    async def _start_one_by_one(self) -> float:
        """Return the 99th percentile of the seconds until a single run has its RayJob."""
        seconds = []
        for number in range(self._size.single):
            name = f"single-{number}"
            started = time.monotonic()
            await self._create(name)
            await self._wait_for_jobs([name])
            seconds.append(self._job_times[f"{name}-1"] - started)
            await asyncio.sleep(0.2)
        return statistics.quantiles(seconds, n=100)[98]

    async def _post_snapshots(self, streams: Sequence[SnapshotStream]) -> Sample:
        """Post snapshots of all runs while some of them end; return what the status shows."""
        await for_each(streams, self._set_running)
        await for_each(streams, SnapshotStream.post)
        await self._wait_for_all([stream.name for stream in streams], is_running)
        start = time.monotonic() + SECONDS_TO_SETTLE
        end = start + self._size.seconds
        order = random.Random(0).sample(list(streams), len(streams))
        ending = order[: int(ENDS_PER_SECOND * self._size.seconds)][: len(order) // 2]
        posting = {stream.name: asyncio.create_task(_post_until(stream, end)) for stream in order}
        await asyncio.sleep(start - time.monotonic())
        oldest = asyncio.create_task(self._find_oldest(order, posting, end))
        writes = await self._controller.counter(STATUS_WRITES)
        for number, stream in enumerate(ending, 1):
            await asyncio.sleep(start + number / ENDS_PER_SECOND - time.monotonic())
            posting.pop(stream.name).cancel()
            await self._end(stream)
        await asyncio.gather(*posting.values())
        writes = await self._controller.counter(STATUS_WRITES) - writes
        rate = writes / (time.monotonic() - start)
        await self._wait_for_all([stream.name for stream in ending], is_complete)
        statuses = await self._statuses()
        lost = sum(_last_step(statuses[stream.name]) != stream.step for stream in ending)
        return {"streamWrites": rate, "oldest": await oldest, "lost": lost}

    async def _find_oldest(
        self, streams: Sequence[SnapshotStream], posting: Mapping[str, object], end: float
    ) -> float:
        """Return the age of the oldest progress in a status, in five samples until the end.

        Only runs that still post snapshots count. The age is the time since the snapshot of the
        step in the status was posted, because `updatedAt` has whole seconds.
        """
        oldest = 0.0
        for remaining in (1.0, 0.75, 0.5, 0.25, 0.0):
            await asyncio.sleep(end - remaining * self._size.seconds - time.monotonic())
            # The time before the request: it takes a second to list 1,600 runs.
            now, statuses = time.time(), await self._statuses()
            for stream in streams:
                if stream.name in posting:
                    step = _last_step(statuses[stream.name])
                    assert step, f"{stream.name} has no progress"
                    oldest = max(oldest, now - stream.posted[step])
        return oldest

    async def _finish(self, streams: Sequence[SnapshotStream]) -> None:
        """Let all runs succeed."""
        await for_each(streams, self._set_running)
        await for_each(streams, self._end)
        await self._wait_for_all([stream.name for stream in streams], is_complete)

    async def _end(self, stream: SnapshotStream) -> None:
        await stream.post(ended=True)
        await self._set_job(stream, "SUCCEEDED", "Complete")

    async def _set_running(self, stream: SnapshotStream) -> None:
        await self._set_job(stream, "RUNNING", "Running")

    async def _set_job(self, stream: SnapshotStream, job: str, deployment: str) -> None:
        status: Manifest = {"jobStatus": job, "jobDeploymentStatus": deployment}
        change: Manifest = {"status": status | {"rayClusterName": "trainshed"}}
        await self._api.patch(JOBS, NAMESPACE, f"{stream.name}-1", change, part="status")

    async def _streams(self, names: Sequence[str]) -> list[SnapshotStream]:
        """Return a stream for each of these runs."""
        runs, _ = await self._api.list_all(RUNS, NAMESPACE)
        uids = {
            str(metadata["name"]): str(metadata["uid"])
            for metadata in (as_object(run["metadata"]) for run in runs)
        }
        return [SnapshotStream(self._controller, self._key, name, uids[name]) for name in names]

    async def _statuses(self) -> dict[str, TrainingRunStatus]:
        runs, _ = await self._api.list_all(RUNS, NAMESPACE)
        return {
            str(as_object(run["metadata"])["name"]): TrainingRunStatus.model_validate(
                run.get("status") or {}
            )
            for run in runs
        }

    async def _create(self, name: str) -> None:
        await self._api.create(RUNS, NAMESPACE, make_run(name))

    async def _wait_for_jobs(self, names: Sequence[str]) -> None:
        """Wait until each of the runs has its RayJob."""
        jobs = {f"{name}-1" for name in names}
        await until(
            lambda: jobs <= self._job_times.keys(),
            TIMEOUT_SECONDS,
            lambda: f"{len(jobs - self._job_times.keys())} RayJobs are missing",
        )

    async def _wait_for_all(
        self, names: Sequence[str], condition: Callable[[TrainingRunStatus], bool]
    ) -> None:
        """Wait until a condition holds for all of the runs."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            statuses = await self._statuses()
            missing = [name for name in names if not condition(statuses[name])]
            if not missing:
                return
            assert time.monotonic() < deadline, f"not {condition.__name__}: {missing}"
            await asyncio.sleep(1.0)

    async def _watch_jobs(self) -> None:
        _, version = await self._api.list_all(JOBS, NAMESPACE)
        while True:
            async for kind, job in self._api.watch(JOBS, NAMESPACE, version):
                metadata = as_object(job["metadata"])
                version = str(metadata["resourceVersion"])
                if kind == "ADDED":
                    self._job_times[str(metadata["name"])] = time.monotonic()


async def _post_until(stream: SnapshotStream, end: float) -> None:
    due = time.monotonic() + random.Random(stream.name).uniform(0, SECONDS_BETWEEN_SNAPSHOTS)
    while due < end:
        await asyncio.sleep(due - time.monotonic())
        await stream.post()
        due += SECONDS_BETWEEN_SNAPSHOTS


def is_running(status: TrainingRunStatus) -> bool:
    """Return whether a run trains."""
    return status.phase == "Running"


def is_complete(status: TrainingRunStatus) -> bool:
    """Return whether a run has succeeded."""
    return status.holds("Complete")


def _last_step(status: TrainingRunStatus) -> int | None:
    return status.progress.step if status.progress else None
