"""The controller: 1,000 runs to RayJobs, at rest, 500 runs that tell how they do.

A real API server, and nobody behind it: RayJobs are made to run and to end by this program. Beside
it a bare client that creates the same RayJobs with 16 connections.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from benchmarks.api_server import all_at_once, api_server
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.ours.controller import KEY_SECRET
from benchmarks.ours.trial import NAMESPACE, Size, Trial, make_run
from tests.kuberay.api import JOBS, KubeApi
from trainshed_api.rayjob import Attempt, SharedCluster, render_rayjob
from trainshed_api.validation import validate_document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kuberay.resources import Manifest


SECONDS_FRESH = 20.0
FULL, QUICK = Size(100, 1000, 500, 60.0), Size(5, 60, 20, 10.0)


def main() -> None:
    """Measure all of it."""
    given = options(__doc__)
    size = QUICK if given.quick else FULL

    def bare(folder: Path) -> Sample:
        with api_server(folder) as client:
            return asyncio.run(post_rayjobs(client.kubeconfig, size))

    def ours(folder: Path) -> Sample:
        with api_server(folder) as client:
            secret = ("secret", "generic", KEY_SECRET)
            client.kubectl("create", "namespace", NAMESPACE)
            client.kubectl("-n", NAMESPACE, "create", *secret)
            return asyncio.run(Trial(client.kubeconfig, folder, size).run())

    samples = in_turn({"bare client": bare, "ours": ours}, given)

    def of(name: str) -> list[float]:
        return samples.of("ours", name)

    plain = samples.of("bare client", "rate")
    figures = [
        Figure("bare client: RayJobs created", "1/s", plain),
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


async def post_rayjobs(kubeconfig: Path, size: Size) -> Sample:
    """Return the RayJobs a second that a client creates which does nothing else."""
    api = await KubeApi.connect(kubeconfig)
    run = validate_document(make_run("bare"), "bare")
    manifests = []
    for number in range(size.crowd):
        attempt = Attempt("default", f"bare-{number}", "0" * 36, 1, "http://x/y", "0" * 64)
        manifests.append(render_rayjob(run, attempt, SharedCluster("trainshed")))

    async def create(manifest: Manifest) -> None:
        await api.create(JOBS, "default", manifest)

    async with api:
        began = time.monotonic()
        await all_at_once(create, manifests)
        return {"rate": size.crowd / (time.monotonic() - began)}


if __name__ == "__main__":
    main()
