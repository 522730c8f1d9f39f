"""A dataset of 200,000 small files: time until its first rows, CPU time, size, requests.

Files of one byte in 100 folders, on a disk and in an S3 server on this machine, whose CPU time is
included: list, split into fragments, send to another process, read the first table.
"""

from __future__ import annotations

import os
import pickle
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.measure import Figure, Sample, Target, parse_options, publish, run_sides
from benchmarks.s3_server import run_s3_server
from tests.faulty_s3 import FaultyS3
from trainshed.data.sources.dataset_files import open_source, read_fragment
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.store_client import client_of
from trainshed_api.rows import ReadSpec

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.storage.folder import Folder

CLASSES, FIELD = 100, "spec.data.datasets.train.read"
READ = ReadSpec.model_validate({"format": "images", "path": "rows"})
MAX_SECONDS = 10


def main() -> None:
    """Measure the disk and the bucket."""
    options = parse_options(__doc__)
    files = 20_000 if options.quick else 200_000
    with run_s3_server() as server, closing(FaultyS3(server)) as proxy:
        name = server.make_bucket()
        folder = server.folder_of(name) / "rows"
        write(folder, files)
        bucket = Bucket(f"s3://{name}", "rows")
        os.environ.update(proxy.environment)
        before = proxy.count()
        open_source(bucket, READ, FIELD)
        requests = proxy.count() - before
        os.environ.update(server.environment)
        client_of.cache_clear()  # the cached client uses the proxy
        folders = {"disk": Disk(folder), "bucket": bucket}
        sides = {name: partial(open_and_read, each) for name, each in folders.items()}
        samples = run_sides(sides, options)
    target = None if options.quick else Target("value", "<=", MAX_SECONDS)
    figures = []
    for side in sides:
        figures += [
            Figure(f"{side}: until the first rows", "s", samples.of(side, "ready"), target=target),
            Figure(f"{side}: CPU time of this process", "s", samples.of(side, "processor")),
            Figure(f"{side}: until the fragments", "s", samples.of(side, "opened")),
            Figure(f"{side}: sent to a process", "MB", samples.of(side, "megabytes")),
        ]
    figures.append(Figure("bucket: requests of the listing", "", [float(requests)]))
    publish("listing", figures, samples, options)


def write(rows: Path, files: int) -> None:
    """Write this number of files of one byte."""
    for number in range(CLASSES):
        folder = rows / f"class-{number:03}"
        folder.mkdir(parents=True)
        for image in range(files // CLASSES):
            (folder / f"{image:06}.png").write_bytes(b"x")


def open_and_read(folder: Folder, _: Path) -> Sample:
    """Open a dataset, pickle it as for another process, and read its first table."""
    cpu, started = time.process_time(), time.perf_counter()
    opened = open_source(folder, READ, FIELD)
    seconds = time.perf_counter() - started
    sent = pickle.dumps(opened)
    source = pickle.loads(sent)
    next(read_fragment(source.scan, source.fragments[0], (), 64))
    return {
        "opened": seconds,
        "ready": time.perf_counter() - started,
        "processor": time.process_time() - cpu,
        "megabytes": len(sent) / 1e6,
    }
