"""Rows/s of Parquet and images from a bucket, against the same files on a disk.

Ours streams with two CPUs, three epochs in file order, one rank that takes batches without training
on them. The bucket is an S3 server on this machine, whose CPU time would be that of another
machine. Each epoch fetches all files, or only the first one does, with `read.localCache`.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import stored
from benchmarks.loaders import EPOCHS, RATES, rates_of
from benchmarks.measure import (
    Figure,
    Sample,
    Samples,
    Target,
    parse_options,
    parser_for,
    publish,
    run_sides,
)
from benchmarks.processes import run_module
from benchmarks.s3_server import run_s3_server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.plain.case import Case
    from tests.s3 import S3Server

FORMATS = ("parquet", "jpeg")
MIN_RATIO = 0.7
LOCAL_CACHE = "20Gi"
BUCKET, CACHED = "bucket", "bucket, localCache"
LOADER = "streamed, 2 CPUs"
TIMEOUT_SECONDS = 1_800


def main() -> None:
    """Measure both formats."""
    parser = parser_for(__doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[100], help="file sizes")
    options = parse_options(parser)
    sizes = [10] if options.quick else options.megabytes
    cases = stored.cases(FORMATS, sizes, options.cache)
    with run_s3_server() as server:
        addresses = upload(server, cases)
        sides = {
            "disk": partial(read, cases, None, {}),
            BUCKET: partial(read, cases, addresses, server.environment),
            CACHED: partial(read, cases, addresses, server.environment, local_cache=LOCAL_CACHE),
        }
        samples = run_sides(sides, options)
    figures = [figure for case in cases for figure in compare(case, samples)]
    publish("s3_read", figures, samples, options)


def upload(server: S3Server, cases: Sequence[Case]) -> dict[str, str]:
    """Copy the files of all cases to a new bucket; return the address of each folder."""
    bucket = server.make_bucket()
    addresses = {}
    for folder in sorted({case.folder for case in cases}):
        shutil.copytree(folder, server.folder_of(bucket) / Path(folder).name)
        addresses[folder] = f"s3://{bucket}/{Path(folder).name}"
    return addresses


def compare(case: Case, samples: Samples) -> list[Figure]:
    """Return the figures of a case."""
    figures = []
    for rate in RATES:
        title, target = f"{case.name}, {rate}", Target("ratio", ">=", MIN_RATIO)
        disk = samples.of("disk", title)
        figures.append(Figure(f"{title}: disk", "rows/s", disk))
        figures += [
            Figure(f"{title}: {side}", "rows/s", samples.of(side, title), ("disk", disk), target)
            for side in (BUCKET, CACHED)
        ]
    return figures


def read(
    cases: Sequence[Case],
    addresses: Mapping[str, str] | None,
    environment: Mapping[str, str],
    folder: Path,
    *,
    local_cache: str = "",
) -> Sample:
    """Take all batches of all cases; return the rates."""
    arguments = {
        "cases": [asdict(case) for case in cases],
        "folder": folder,
        "epochs": EPOCHS,
        "loaders": [LOADER],
        "addresses": addresses,
        "local_cache": local_cache,
    }
    times = run_module(
        "benchmarks.ours.loading",
        folder,
        arguments,
        environment=environment,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    return {
        f"{case.name}, {name}": rate
        for case in cases
        for name, rate in rates_of(times[case.name][LOADER], case.batch_size).items()
    }
