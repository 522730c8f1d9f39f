"""A dataset of 200,000 small files: time until its first rows, CPU time, size, requests.

Files of one byte in 100 folders, on a disk and in an S3 server on this machine, whose CPU time is
included: list, split into fragments, send to another process, read the first table.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from trainshed.data.sources.dataset_files import open_source, read_fragment
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.store_client import client_of
from trainshed_api.rows import ReadSpec

if TYPE_CHECKING:
    from trainshed.storage.folder import Folder

CLASSES, FIELD = 100, "spec.data.datasets.train.read"
READ = ReadSpec.model_validate({"format": "images", "path": "rows"})
MOST_SECONDS = 10


def main() -> None:
    """Measure."""
    given = options(__doc__)
    files = 20_000 if given.quick else 200_000
    with ExitStack() as stack:
        server = S3Server(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        server.start()
        stack.callback(server.kill)
        proxy = FaultyS3(server)
        stack.callback(proxy.close)
        bucket = server.make_bucket()
        rows = server.folder_of(bucket) / "rows"
        write(rows, files)
        there = Bucket(f"s3://{bucket}", "rows")
        os.environ.update(proxy.environment)
        requests = count(proxy, there)
        os.environ.update(server.environment)
        client_of.cache_clear()  # of the proxy, which was for counting
        sides = {"disk": partial(ready, Disk(rows)), "bucket": partial(ready, there)}
        samples = in_turn(sides, given)
    target = None if given.quick else Target("value", "<=", MOST_SECONDS)
    figures = []
    for side in sides:
        figures += [
            Figure(f"{side}: until the first rows", "s", samples.of(side, "ready"), target=target),
            Figure(f"{side}: of it the processor, ours", "s", samples.of(side, "processor")),
            Figure(f"{side}: of it listed and cut", "s", samples.of(side, "opened")),
            Figure(f"{side}: sent to a process", "MB", samples.of(side, "megabytes")),
        ]
    figures.append(Figure("bucket: requests of the listing", "", [float(requests)]))
    publish("listing", figures, samples, given)


def write(rows: Path, files: int) -> None:
    """Write so many files of a byte."""
    for number in range(CLASSES):
        folder = rows / f"class-{number:03}"
        folder.mkdir(parents=True)
        for picture in range(files // CLASSES):
            (folder / f"{picture:06}.png").write_bytes(b"x")


def count(proxy: FaultyS3, at: Bucket) -> int:
    """Return how many requests opening takes."""
    before = proxy.count()
    open_source(at, READ, FIELD)
    return proxy.count() - before


def ready(at: Folder, _: Path) -> Sample:
    """Open a dataset, send it to another process, and read its first table there."""
    processor, begun = time.process_time(), time.perf_counter()
    opened = open_source(at, READ, FIELD)
    seconds = time.perf_counter() - begun
    sent = pickle.dumps(opened)
    source = pickle.loads(sent)
    next(read_fragment(source.scan, source.fragments[0], (), 64))
    return {
        "opened": seconds,
        "ready": time.perf_counter() - begun,
        "processor": time.process_time() - processor,
        "megabytes": len(sent) / 1e6,
    }


if __name__ == "__main__":
    main()
