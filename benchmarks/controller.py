"""The controller: RayJobs of 1,000 runs, CPU without changes, snapshots of 500 runs.

A real API server without KubeRay: this program sets the status of RayJobs. The other side is a
client with 16 connections that writes the same objects and decides nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.api_server import all_at_once, api_server
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.ours.controller import KEY_SECRET
from benchmarks.ours.objects import make_run, make_status
from benchmarks.ours.trial import NAMESPACE, Size, Trial
from tests.control_plane.objects import RUNS
from tests.kuberay.api import JOBS, KubeApi
from trainshed_api.rayjob import AttemptIdentity, SharedCluster, render_rayjob
from trainshed_api.validation import validate_document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


SECONDS_FRESH = 20.0
FULL, QUICK = Size(100, 1000, 500, 60.0), Size(5, 60, 20, 10.0)


def main() -> None:
    """Measure all of it."""
    given = options(__doc__)
    size = QUICK if given.quick else FULL

    def bare(folder: Path) -> Sample:
        with api_server(folder) as client:
            return asyncio.run(write_the_same(client.kubeconfig, size))

    def ours(folder: Path) -> Sample:
        with api_server(folder) as client:
            secret = ("secret", "generic", KEY_SECRET)
            client.kubectl("create", "namespace", NAMESPACE)
            client.kubectl("-n", NAMESPACE, "create", *secret)
            return asyncio.run(Trial(client.kubeconfig, folder, size).run())

    samples = in_turn({"bare client": bare, "ours": ours}, given)

    def of(name: str) -> list[float]:
        return samples.of("ours", name)

    plain = samples.of("bare client", "runs")
    figures = [
        Figure("bare client: RayJobs created", "1/s", samples.of("bare client", "jobs")),
        Figure("bare client: status written and RayJob created", "1/s", plain),
        Figure("TrainingRuns to RayJobs", "1/s", of("rate"), ("bare client", plain),
               Target("value", ">=", 100)),
        Figure("  RayJobs created a run", "", of("creates"), target=Target("value", "<=", 1)),
        Figure("  status writes a run until then", "", of("writes"),
               target=Target("value", "<=", 2)),
        Figure("a run at rest: applied until its RayJob is there, 99th percentile", "s",
               of("p99"), target=Target("value", "<=", 0.5)),
        Figure("CPU with all runs at their end", "%", of("idleCpu"),
               target=Target("value", "<=", 2)),
        Figure("resident memory, at most", "MB", of("memory"), target=Target("value", "<=", 200)),
        Figure("status writes with all streams", "1/s", of("streamWrites"),
               target=Target("value", "<=", 40)),
        Figure("  oldest progress of a run", "s", of("oldest"),
               target=Target("value", "<=", SECONDS_FRESH)),
        Figure("  last words lost", "", of("lost"), target=Target("value", "<=", 0)),
    ]  # fmt: skip
    publish("controller", figures, samples, given)


async def write_the_same(kubeconfig: Path, size: Size) -> Sample:
    """Return what a client makes a second that does nothing else, of RayJobs and of runs.

    For a run it writes what the controller does: the status that holds the attempt, the RayJob.
    """
    api = await KubeApi.connect(kubeconfig)
    run = validate_document(make_run("bare"), "bare")

    names = [f"bare-{number}" for number in range(size.crowd)]
    runs = [f"{name}-run" for name in names]
    manifests = {}
    for name in names + runs:
        attempt = AttemptIdentity("default", name, "0" * 36, 1, "http://x/y", "0" * 64)
        manifests[name] = render_rayjob(run, attempt, SharedCluster("trainshed"))

    async def create_job(name: str) -> None:
        await api.create(JOBS, "default", manifests[name])

    async def create_run(name: str) -> None:
        await api.create(RUNS, "default", make_run(name))

    async def begin(name: str) -> None:
        await api.patch(RUNS, "default", name, {"status": make_status(name)}, part="status")
        await create_job(name)

    async def rate(do: Callable[[str], Awaitable[None]], names: list[str]) -> float:
        began = time.monotonic()
        await all_at_once(do, names)
        return size.crowd / (time.monotonic() - began)

    async with api:
        jobs = await rate(create_job, names)
        await all_at_once(create_run, runs)
        return {"jobs": jobs, "runs": await rate(begin, runs)}


if __name__ == "__main__":
    main()
