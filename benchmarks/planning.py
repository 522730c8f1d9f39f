"""Planning of a dataset of many small files: seconds, memory, and the size of the plan.

The files are on a disk of this machine, a thousand in each folder. A new process lists and plans
the files of each format.
"""

from __future__ import annotations

import io
import pickle
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from benchmarks.measure import Figure, Sample, Target, parse_options, parser_for, publish, run_sides
from trainshed.data.sources.dataset_files import open_source
from trainshed.storage.disk import Disk
from trainshed_api.rows import ReadSpec

if TYPE_CHECKING:
    from collections.abc import Callable

FIELD = "spec.data.datasets.train.read"
FILES, FOLDER_FILES, MEGABYTE = 200_000, 1000, 1e6
ROWS = pa.table({"id": [1, 2], "x": [0.5, 1.5], "y": [0.5, 2.5], "label": [0, 1]})
JSON = b'{"id": 1, "x": 0.5, "label": 0}\n{"id": 2, "x": 1.5, "label": 1}\n'
FORMATS = ("parquet", "csv", "json", "binary")


def main() -> None:
    """Measure the formats."""
    parser = parser_for(__doc__)
    parser.add_argument("--files", type=int, default=FILES, help="files of each format")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    options = parse_options(parser)
    files = 2000 if options.quick else options.files
    folder = options.cache / f"planning-{files}"
    for form in options.formats:
        write(folder / form, form, files)
    sides = {form: partial(plan_in_process, form, folder / form) for form in options.formats}
    samples = run_sides(sides, options)
    scale = max(1, files / FILES)
    limits = {"planned": ("s", 5), "memory": ("MB", 200), "sent to a worker": ("MB", 10)}
    figures = [
        Figure(
            f"{form}: {name}",
            unit,
            samples.of(form, name),
            target=Target("value", "<=", limit * scale),
        )
        for form in sides
        for name, (unit, limit) in limits.items()
    ]
    publish("planning", figures, samples, options)


def encode(form: str) -> bytes:
    """Return the contents of a small file."""
    writers: dict[str, Callable[[pa.Table, io.BytesIO], object]] = {
        "parquet": pq.write_table,
        "csv": pacsv.write_csv,
        "json": lambda _, to: to.write(JSON),
        "binary": lambda _, to: to.write(b"x"),
    }
    content = io.BytesIO()
    writers[form](ROWS, content)
    return content.getvalue()


def write(rows: Path, form: str, files: int) -> None:
    """Write this number of files, unless the folder exists."""
    if rows.exists():
        return
    content = encode(form)
    for number in range(files):
        folder = rows / f"part-{number // FOLDER_FILES:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:08}.{form}").write_bytes(content)


def plan_in_process(form: str, rows: Path, _: Path) -> Sample:
    """Plan a dataset in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, form, rows).result()


def measure(form: str, rows: Path) -> Sample:
    """Plan a dataset; return the seconds, the growth of memory, and the size of the plan."""
    before, started = memory("VmRSS"), time.perf_counter()
    read = ReadSpec.model_validate({"format": form, "path": "rows"})
    source = open_source(Disk(rows), read, FIELD)
    seconds = time.perf_counter() - started
    return {
        "planned": seconds,
        "memory": memory("VmHWM") - before,
        "sent to a worker": len(pickle.dumps(source)) / MEGABYTE,
    }


def memory(name: str) -> float:
    """Return a size of this process in MB; `VmHWM` is its largest resident memory."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    sizes = dict(line.split(":", 1) for line in lines)
    return int(sizes[name].split()[0]) * 1024 / MEGABYTE
