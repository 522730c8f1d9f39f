"""Rows/s of Parquet and images from a bucket, against the same files on a disk.

Ours streams with two CPUs, three epochs in file order, one rank that takes batches without training
on them. The bucket is an S3 server on this machine, whose CPU time would be that of another
machine. Each epoch fetches all files, or only the first one does, with `read.localCache`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import stored
from benchmarks.loaders import EPOCHS, RATES, rates_of
from benchmarks.measure import (
    Figure,
    Sample,
    Samples,
    Target,
    in_turn,
    options_in,
    parser_of,
    publish,
)
from benchmarks.plain.case import list_cases
from benchmarks.processes import output_of
from tests.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.plain.case import Case

FORMATS = ("parquet", "jpeg")
LEAST = 0.7
LOCAL_CACHE = "20Gi"
BUCKET, KEPT = "bucket", "bucket, localCache"
TIMEOUT_SECONDS = 1_800


def main() -> None:
    """Measure both formats."""
    parser = parser_of(__doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[100], help="of the files")
    asked = parser.parse_args()
    given = options_in(asked)
    sizes = [10] if given.quick else asked.megabytes
    made = [stored.cases(form, size, given.cache) for size in sizes for form in FORMATS]
    cases = list(chain.from_iterable(made))
    with ExitStack() as stack:
        server = S3Server(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        server.start()
        stack.callback(server.kill)
        places = put(server, cases)
        sides = {
            "disk": partial(read, cases, {case.folder: case.folder for case in cases}, {}),
            BUCKET: partial(read, cases, places, server.environment),
            KEPT: partial(read, cases, places, server.environment, local_cache=LOCAL_CACHE),
        }
        samples = in_turn(sides, given)
    publish("s3_read", [each for case in cases for each in compare(case, samples)], samples, given)


def put(server: S3Server, cases: Sequence[Case]) -> dict[str, str]:
    """Put the files of all cases into a bucket; return the address of each folder."""
    bucket = server.make_bucket()
    found = {}
    for folder in sorted({case.folder for case in cases}):
        shutil.copytree(folder, server.folder_of(bucket) / Path(folder).name)
        found[folder] = f"s3://{bucket}/{Path(folder).name}"
    return found


def compare(case: Case, samples: Samples) -> list[Figure]:
    """Return the lines of a case."""
    figures = []
    for which in RATES:
        title, target = f"{case.name}, {which}", Target("ratio", ">=", LEAST)
        disk = samples.of("disk", title)
        figures += [Figure(f"{title}: disk", "rows/s", disk)]
        figures += [
            Figure(f"{title}: {side}", "rows/s", samples.of(side, title), ("disk", disk), target)
            for side in (BUCKET, KEPT)
        ]
    return figures


def read(
    cases: Sequence[Case],
    places: Mapping[str, str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    local_cache: str = "",
) -> Sample:
    """Take the batches of all cases from where their folders lie; return the rates."""
    options = {
        "listed": list_cases(cases),
        "folder": folder,
        "epochs": EPOCHS,
        "places": places,
        "local_cache": local_cache,
    }
    text = output_of(
        "benchmarks.ours.from_places",
        folder,
        options,
        environment=environment,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    found = json.loads(text)
    return {
        f"{case.name}, {which}": rate
        for case in cases
        for which, rate in rates_of(found[case.name], case.batch_size).items()
    }


if __name__ == "__main__":
    main()
