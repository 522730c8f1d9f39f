"""A bucket against a disk: steps with checkpoints of 1 GB, claims, requests, reads of a resume.

The bucket is an S3 server on this machine with the lowest priority, because its work would be that
of another machine. The figures include the CPU time that it still takes.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.processes import output_of
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainshed.storage.bucket import Bucket

STEPS, EVERY = 300, 100
RANKS = 4
# Of a run that makes a step each second.
WATCHED_SECONDS = 30
PIECE_BYTES = 16 * 2**20


def main() -> None:
    """Measure."""
    given = options(__doc__)
    megabytes = 64 if given.quick else 1024
    with ExitStack() as stack:
        server = S3Server(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        server.start()
        give_way(server.process)
        stack.callback(server.kill)
        proxy = FaultyS3(server)
        stack.callback(proxy.close)
        sides = {
            "no checkpoint": partial(train, server, "disk", 0, megabytes),
            "disk": partial(train, server, "disk", EVERY, megabytes),
            "bucket": partial(train, server, "bucket", EVERY, megabytes),
            "requests": partial(ask, server, proxy, megabytes),
        }
        samples = in_turn(sides, given, is_timed=False)
    plain = samples.of("no checkpoint", "stepping")
    disk, bucket = (samples.of(side, "blocked") for side in ("disk", "bucket"))
    beside_disk, beside_bucket = (
        [mine - alone for mine, alone in zip(samples.of(side, "stepping"), plain, strict=True)]
        for side in ("disk", "bucket")
    )
    publish(
        "bucket",
        [
            Figure("steps without checkpoints", "s", plain),
            Figure("held up by checkpoints on a disk", "s", disk),
            Figure(
                "held up by checkpoints in a bucket",
                "s",
                bucket,
                ("disk", disk),
                Target("ratio", "<=", 1.25),
            ),
            Figure("the same, and slower steps beside them, disk", "s", beside_disk),
            Figure(
                "the same, and slower steps beside them, bucket",
                "s",
                beside_bucket,
                ("disk", beside_disk),
            ),
            Figure("until the last is on a disk", "s", samples.of("disk", "all")),
            Figure("until the last is in a bucket", "s", samples.of("bucket", "all")),
            Figure(
                "a claim", "ms", samples.of("requests", "claim"), None, Target("value", "<=", 50)
            ),
            Figure(
                "requests of a claim",
                "",
                samples.of("requests", "claims"),
                None,
                Target("worst", "<=", 1),
            ),
            Figure(
                "requests of a run",
                "1/s",
                samples.of("requests", "a second"),
                None,
                Target("worst", "<=", 2),
            ),
            Figure(
                f"reads of a checkpoint by {RANKS} ranks",
                "",
                samples.of("requests", "reads"),
                None,
                Target("worst", "<=", 1.1),
            ),
        ],
        samples,
        given,
    )


def give_way(process: int) -> None:
    """Let a process have a core when nobody else wants it; a priority is that of each thread."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), 19)


def train(server: S3Server, kind: str, every: int, megabytes: int, folder: Path) -> Sample:
    """Make steps, with a checkpoint each so many; 0 for none."""
    storage = f"s3://{server.make_bucket()}/ray" if kind == "bucket" else str(folder / "ray")
    options = {"storage": storage, "megabytes": megabytes, "steps": STEPS, "every": every}
    with reaching(server.environment):
        text = output_of("benchmarks.ours.stepping", folder, options, timeout_seconds=600)
    found: Sample = json.loads(text)
    return found


def ask(server: S3Server, proxy: FaultyS3, megabytes: int, folder: Path) -> Sample:
    """Count what a run asks for, by a proxy that all of it goes through."""
    from trainshed.storage.bucket import Bucket
    from trainshed.storage.run_folder import METRICS, RunFolder

    with reaching(proxy.environment):
        storage = Bucket(f"s3://{server.make_bucket()}", "runs/local/benchmark")
        storage.write("warm", b"")  # the client is made, and its connection
        before, claims = proxy.count(), proxy.count("PUT", "*/claim")
        began = time.perf_counter()
        attempt = RunFolder(storage).claim("abc", fresh=False, number=1)
        claim_ms = 1000 * (time.perf_counter() - began)
        claims = proxy.count("PUT", "*/claim") - claims
        began, events = time.perf_counter(), attempt.folder.append(METRICS)
        for _ in range(WATCHED_SECONDS):
            events.write("{}\n")
            time.sleep(1)
        asked = proxy.count() - before
        seconds = time.perf_counter() - began
        events.close()
        attempt.close()
        reads = read_by_all(storage / "attempts/1/ray", proxy, megabytes, folder)
    return {"claim": claim_ms, "claims": claims, "a second": asked / seconds, "reads": reads}


def read_by_all(parent: Bucket, proxy: FaultyS3, megabytes: int, folder: Path) -> float:
    """Return how often the ranks of a node fetched the weights, by the requests of one time."""
    import torch

    from benchmarks.ours.stepping import manifest_of
    from trainshed.checkpoint import store
    from trainshed.checkpoint.local_checkpoint import local_checkpoint
    from trainshed.checkpoint.model_file import TORCH

    weights = {"weight": torch.zeros(megabytes * 2**18)}
    content = store.Content(TORCH, {"model": weights}, {})
    written = store.write(parent, content, manifest_of(1), trust_objects=False)
    manifest = store.verify(written)
    tempfile.tempdir = str(folder)

    def fetch(_: int) -> None:
        with local_checkpoint(written, manifest):
            pass

    try:
        before = proxy.count("GET", f"*{TORCH.name}")
        with ThreadPoolExecutor(RANKS) as ranks:
            list(ranks.map(fetch, range(RANKS)))
        asked = proxy.count("GET", f"*{TORCH.name}") - before
    finally:
        tempfile.tempdir = None
    return asked / -(-manifest.files[TORCH.name].bytes // PIECE_BYTES)


@contextmanager
def reaching(environment: Mapping[str, str]) -> Iterator[None]:
    """Let this process and its children find a server."""
    from trainshed.storage.store_client import client_of

    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        client_of.cache_clear()


if __name__ == "__main__":
    main()
