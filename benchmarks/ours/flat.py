"""Has two workers take all batches of a dataset; measures the peak memory of each kind of process.

The first dataset is small, so that imports do not count as growth of the second.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import ray
from ray._private.internal_api import node_stats

from benchmarks.flat import STORE_BYTES
from benchmarks.ours import feeding, many_rows
from trainshed.coordinator.client import handle_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.data.sampler.dataset_plan import DatasetPlan

    Role = Literal["worker", "coordinator", "task"]

RANKS, STEP_BYTES = 2, 2**20
SECONDS_BETWEEN_SAMPLES = 0.05


def main(*, folder: str, form: str, stores: tuple[int, int]) -> dict[str, float]:
    """Return peaks, seconds and spilled bytes for both sizes of a dataset.

    Args:
        folder: for the rows, which are removed afterwards.
        form: format of the files.
        stores: sizes of the datasets, in object stores.
    """
    measured, kind = dict[str, float](), many_rows.KINDS[form]
    with feeding.start_ray(["data"], STORE_BYTES):
        for size, factor in zip(("small", "large"), stores, strict=True):
            data = Path(folder, size)
            rows = many_rows.write_rows(data, form, factor * STORE_BYTES)
            spilled, started = spilled_bytes(), time.perf_counter()
            plan = feeding.make_plan(size, data, kind.row_bytes, RANKS, **kind.fields(form, data))
            peaks = measure_pass(plan, rows)
            measured |= {f"{role}, {size}": peak for role, peak in peaks.items()}
            measured[f"seconds, {size}"] = time.perf_counter() - started
            measured[f"spilled, {size}"] = spilled_bytes() - spilled
            shutil.rmtree(data)
    return measured


def measure_pass(plan: DatasetPlan, rows: int) -> dict[Role, float]:
    """Take a pass of all rows; return the largest private memory of a process in each role."""
    ranks = feeding.start_ranks(["data"] * RANKS)
    client = feeding.start_coordinator([plan], ranks=RANKS)
    epoch_pass = feeding.make_pass(plan, RANKS, int(STEP_BYTES / plan.row_bytes))
    with measure_peaks() as peaks:
        counts: list[int] = ray.get(
            [rank.count_rows.remote(plan, epoch_pass, handle_of(client)) for rank in ranks]
        )
    assert sum(counts) == rows, f"{sum(counts)} rows of {rows}"
    for rank in ranks:
        ray.kill(rank)
    ray.kill(handle_of(client))
    return peaks


def spilled_bytes() -> float:
    """Return the bytes that the node has spilled to disk."""
    (node,) = ray.nodes()  # type: ignore[no-untyped-call]
    stats = node_stats(  # type: ignore[no-untyped-call]
        node["NodeManagerAddress"], node["NodeManagerPort"], include_memory_info=False
    )
    return float(stats.store_stats.spilled_bytes_total)


@contextlib.contextmanager
def measure_peaks() -> Iterator[dict[Role, float]]:
    """Sample the memory of the Ray processes of this program until the block ends.

    Yields:
        Largest private memory of a process in each role, in bytes.
    """
    peaks: dict[Role, float] = {}
    stopped = threading.Event()

    def sample() -> None:
        while not stopped.wait(SECONDS_BETWEEN_SAMPLES):
            for process in descendants():
                # The process may have ended since it was listed.
                with contextlib.suppress(OSError, StopIteration):
                    if role := role_of(process):
                        peaks[role] = max(peaks.get(role, 0), private_bytes(process))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        stopped.set()
        thread.join()


def descendants() -> list[Path]:
    """Return the folders in /proc of this process and of all its descendants."""
    folders, ids = [], [str(os.getpid())]
    while ids:
        process = ids.pop()
        folders.append(Path("/proc", process))
        with contextlib.suppress(OSError):  # the process may have ended
            children = folders[-1] / "task" / process / "children"
            ids += children.read_text(encoding="ascii").split()
    return folders


def role_of(process: Path) -> Role | None:
    """Return the role of a Ray process, by its title; None for others."""
    title = (process / "cmdline").read_bytes().partition(b"\0")[0].decode()
    roles: dict[str, Role] = {
        "ray::Rank": "worker",
        "ray::Coordinator": "coordinator",
        "ray::Read": "task",
        "ray::IDLE": "task",
    }
    return next((role for start, role in roles.items() if title.startswith(start)), None)


def private_bytes(process: Path) -> int:
    """Return the memory that a process does not share, which excludes the object store.

    Args:
        process: its folder in /proc.
    """
    status = (process / "status").read_text(encoding="utf-8")
    # proc(5): RssAnon is in kB, which are KiB
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024
