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

from benchmarks.measure import Figure, Sample, Target, in_turn, options_in, parser_of, publish
from trainshed.data.sources.dataset_files import open_source
from trainshed.storage.disk import Disk
from trainshed_api.rows import ReadSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FIELD = "spec.data.datasets.train.read"
FOLDER_FILES, MEGABYTE = 1000, 1e6
ROWS = pa.table({"id": [1, 2], "x": [0.5, 1.5], "y": [0.5, 2.5], "label": [0, 1]})


def main() -> None:
    """Measure."""
    parser = parser_of(__doc__)
    parser.add_argument("--files", type=int, default=200_000, help="of each format")
    parser.add_argument("--formats", nargs="+", choices=tuple(CONTENTS), default=tuple(CONTENTS))
    asked = parser.parse_args()
    given, files = options_in(asked), 2000 if asked.quick else asked.files
    folder = given.cache / f"planning-{files}"
    for form in asked.formats:
        write(folder / form, form, files)
    sides = {form: partial(planned, form, folder / form) for form in asked.formats}
    samples = in_turn(sides, given)
    scale = files / 200_000
    figures = [
        Figure(f"{form}: {name}", unit, samples.of(form, name), target=Target("value", "<=", most))
        for form in sides
        for name, unit, most in (
            ("planned", "s", 5 * max(1, scale)),
            ("memory", "MB", 200 * max(1, scale)),
            ("sent to a worker", "MB", 10 * max(1, scale)),
        )
    ]
    publish("planning", figures, samples, given)


def parquet_rows() -> bytes:
    """Return a small parquet file."""
    sink = io.BytesIO()
    pq.write_table(ROWS, sink)
    return sink.getvalue()


def csv_rows() -> bytes:
    """Return a small csv file."""
    sink = io.BytesIO()
    pacsv.write_csv(ROWS, sink)
    return sink.getvalue()


CONTENTS: Mapping[str, Callable[[], bytes]] = {
    "parquet": parquet_rows,
    "csv": csv_rows,
    "json": lambda: b'{"id": 1, "x": 0.5, "label": 0}\n{"id": 2, "x": 1.5, "label": 1}\n',
    "binary": lambda: b"x",
}


def write(rows: Path, form: str, files: int) -> None:
    """Write so many files of a format, unless they are there."""
    content = CONTENTS[form]()
    if rows.exists():
        return
    for number in range(files):
        folder = rows / f"part-{number // FOLDER_FILES:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:08}.{form}").write_bytes(content)


def planned(form: str, rows: Path, _: Path) -> Sample:
    """Plan a dataset in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, form, str(rows)).result()


def measured(form: str, rows: str) -> Sample:
    """Return what planning takes in this process."""
    before, begun = memory("VmRSS"), time.perf_counter()
    source = open_source(
        Disk(Path(rows)), ReadSpec.model_validate({"format": form, "path": "rows"}), FIELD
    )
    seconds = time.perf_counter() - begun
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


if __name__ == "__main__":
    main()
