"""A bucket against a disk: steps with checkpoints of 1 GB, claims, requests, reads of a resume.

The bucket is an S3 server on this machine with the lowest priority, because its work would be that
of another machine. The figures include the CPU time that it still takes.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmarks.measure import Figure, Sample, Target, parse_options, publish, run_sides
from benchmarks.ours.stepping import make_manifest
from benchmarks.processes import run_module
from benchmarks.s3_server import run_s3_server
from tests.faulty_s3 import FaultyS3
from trainshed.checkpoint import store
from trainshed.checkpoint.local_checkpoint import local_checkpoint
from trainshed.checkpoint.model_file import TORCH
from trainshed.storage.bucket import Bucket
from trainshed.storage.run_folder import METRICS, RunFolder

if TYPE_CHECKING:
    from tests.s3 import S3Server

STEPS, EVERY_STEPS = 300, 100
RANKS = 4
# A run that trains one step each second.
WATCHED_SECONDS = 30
PART_BYTES = 16 * 2**20


def main() -> None:
    """Measure all sides."""
    options = parse_options(__doc__)
    megabytes = 64 if options.quick else 1024
    with run_s3_server() as server, closing(FaultyS3(server)) as proxy:
        for thread in Path(f"/proc/{server.process}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 19)  # priorities are of threads
        os.environ.update(proxy.environment)  # `train` connects without the proxy
        sides = {
            "no checkpoint": partial(train, server, "disk", 0, megabytes),
            "disk": partial(train, server, "disk", EVERY_STEPS, megabytes),
            "bucket": partial(train, server, "bucket", EVERY_STEPS, megabytes),
            "requests": partial(count_requests, server, proxy, megabytes),
        }
        samples = run_sides(sides, options, is_timed=False)
    of = samples.of
    plain, disk = of("no checkpoint", "stepping"), of("disk", "blocked")
    slower_disk, slower_bucket = (
        [
            with_them - without
            for with_them, without in zip(of(side, "stepping"), plain, strict=True)
        ]
        for side in ("disk", "bucket")
    )
    limit = Target("ratio", "<=", 1.25)
    bucket = of("bucket", "blocked")
    figures = [
        Figure("steps without checkpoints", "s", plain),
        Figure("blocked by checkpoints on a disk", "s", disk),
        Figure("blocked by checkpoints in a bucket", "s", bucket, ("disk", disk), limit),
        Figure("blocked, and slower steps, disk", "s", slower_disk),
        Figure("blocked, and slower steps, bucket", "s", slower_bucket, ("disk", slower_disk)),
        Figure("until the last one is on a disk", "s", of("disk", "all")),
        Figure("until the last one is in a bucket", "s", of("bucket", "all")),
    ]
    for name, key, unit, target in (
        ("claim", "claim", "ms", Target("value", "<=", 50)),
        ("requests of a claim", "claims", "", Target("worst", "<=", 1)),
        ("requests of a run", "a second", "1/s", Target("worst", "<=", 2)),
        (f"reads of a checkpoint by {RANKS} ranks", "reads", "", Target("worst", "<=", 1.1)),
    ):
        figures.append(Figure(name, unit, of("requests", key), None, target))
    publish("bucket", figures, samples, options)


def train(server: S3Server, kind: str, every: int, megabytes: int, folder: Path) -> Sample:
    """Run steps, with a checkpoint after each `every` of them, or none if it is 0."""
    storage = f"s3://{server.make_bucket()}/ray" if kind == "bucket" else str(folder / "ray")
    arguments = {"storage": storage, "megabytes": megabytes, "steps": STEPS, "every": every}
    sample: Sample = run_module(
        "benchmarks.ours.stepping",
        folder,
        arguments,
        environment=server.environment,
        timeout_seconds=600,
    )
    return sample


def count_requests(server: S3Server, proxy: FaultyS3, megabytes: int, folder: Path) -> Sample:
    """Count the requests of a run with a proxy."""
    storage = Bucket(f"s3://{server.make_bucket()}", "runs/local/benchmark")
    storage.write("warm", b"")  # makes the client and its connection
    before, claims = proxy.count(), proxy.count("PUT", "*/claim")
    started = time.perf_counter()
    attempt = RunFolder(storage).claim("abc", fresh=False, number=1)
    claim_ms = 1000 * (time.perf_counter() - started)
    claims = proxy.count("PUT", "*/claim") - claims
    started, events = time.perf_counter(), attempt.folder.append(METRICS)
    for _ in range(WATCHED_SECONDS):
        events.write("{}\n")
        time.sleep(1)
    rate = (proxy.count() - before) / (time.perf_counter() - started)
    events.close()
    attempt.close()
    reads = count_reads(storage / "attempts/1/ray", proxy, megabytes, folder)
    return {"claim": claim_ms, "claims": claims, "a second": rate, "reads": reads}


def count_reads(parent: Bucket, proxy: FaultyS3, megabytes: int, folder: Path) -> float:
    """Return how often the ranks of one node fetch the weights together."""
    weights = {"weight": torch.zeros(megabytes * 2**18)}
    content = store.Content(TORCH, {"model": weights}, {})
    written = store.write(parent, content, make_manifest(1), trust_objects=False)
    manifest = store.verify(written)
    tempfile.tempdir = str(folder)

    def fetch(_: int) -> None:
        with local_checkpoint(written, manifest):
            pass

    try:
        before = proxy.count("GET", f"*{TORCH.name}")
        with ThreadPoolExecutor(RANKS) as ranks:
            list(ranks.map(fetch, range(RANKS)))
        requests = proxy.count("GET", f"*{TORCH.name}") - before
    finally:
        tempfile.tempdir = None
    return requests / -(-manifest.files[TORCH.name].bytes // PART_BYTES)
