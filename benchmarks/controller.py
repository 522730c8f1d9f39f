"""The controller: RayJobs of 1,000 runs, CPU without changes, snapshots of 500 runs.

A real API server without KubeRay: this program sets the status of RayJobs. The other side is a
client with 16 connections that writes the same objects and decides nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.api_server import api_server, for_each
from benchmarks.measure import Figure, Sample, Target, parse_options, publish, run_sides
from benchmarks.ours.controller import KEY_SECRET
from benchmarks.ours.controller_trial import NAMESPACE, ControllerTrial, Size
from benchmarks.ours.manifests import make_run, make_status
from tests.control_plane.objects import RUNS
from tests.kuberay.api import JOBS, KubeApi
from trainshed_api.rayjob import AttemptIdentity, SharedCluster, render_rayjob
from trainshed_api.validation import validate_document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


MAX_AGE_SECONDS = 20.0
FULL, QUICK = Size(100, 1000, 500, 60.0), Size(5, 60, 20, 10.0)


def main() -> None:
    """Measure both sides."""
    options = parse_options(__doc__)
    size = QUICK if options.quick else FULL

    def bare(folder: Path) -> Sample:
        with api_server(folder) as client:
            return asyncio.run(write_objects(client.kubeconfig, size))

    def ours(folder: Path) -> Sample:
        with api_server(folder) as client:
            client.kubectl("create", "namespace", NAMESPACE)
            client.kubectl("-n", NAMESPACE, "create", "secret", "generic", KEY_SECRET)
            return asyncio.run(ControllerTrial(client.kubeconfig, folder, size).run())

    samples = run_sides({"bare client": bare, "ours": ours}, options)
    bare_runs = samples.of("bare client", "runs")
    rate, least = samples.of("ours", "rate"), Target("value", ">=", 100)
    figures = [
        Figure("bare client: RayJobs created", "1/s", samples.of("bare client", "jobs")),
        Figure("bare client: status written and RayJob created", "1/s", bare_runs),
        Figure("TrainingRuns to RayJobs", "1/s", rate, ("bare client", bare_runs), least),
    ]
    for name, unit, key, most in (
        ("  RayJobs created for a run", "", "creates", 1),
        ("  status writes for a run until then", "", "writes", 2),
        ("single run: applied until its RayJob exists, 99th percentile", "s", "p99", 0.5),
        ("CPU while all runs are finished", "%", "idleCpu", 2),
        ("largest resident memory", "MB", "memory", 200),
        ("status writes with all snapshots", "1/s", "streamWrites", 40),
        ("  oldest progress of a run", "s", "oldest", MAX_AGE_SECONDS),
        ("  last snapshots lost", "", "lost", 0),
    ):
        target = Target("value", "<=", most)
        figures.append(Figure(name, unit, samples.of("ours", key), target=target))
    publish("controller", figures, samples, options)


async def write_objects(kubeconfig: Path, size: Size) -> Sample:
    """Return the RayJobs/s and the runs/s of a client that writes what the controller writes.

    For a run these are the status with the attempt, and the RayJob.
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

    async def start_run(name: str) -> None:
        await api.patch(RUNS, "default", name, {"status": make_status(name)}, part="status")
        await create_job(name)

    async def rate(names: list[str], write: Callable[[str], Awaitable[None]]) -> float:
        started = time.monotonic()
        await for_each(names, write)
        return size.crowd / (time.monotonic() - started)

    async with api:
        jobs = await rate(names, create_job)
        await for_each(runs, create_run)
        return {"jobs": jobs, "runs": await rate(runs, start_run)}
