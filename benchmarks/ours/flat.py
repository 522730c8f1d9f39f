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
from benchmarks.plain.program import start
from trainshed.coordinator.client import handle_of
from trainshed.data.sampler.dataset_plan import plan_dataset
from trainshed.data.sampler.sizes import Measured
from trainshed.data.sources.dataset_files import open_source
from trainshed.storage.disk import Disk
from trainshed_api.data import DatasetSpec

if TYPE_CHECKING:
    from trainshed.data.sampler.dataset_plan import DatasetPlan

    Role = Literal["worker", "coordinator", "task"]

RANKS, STEP_BYTES = 2, 2**20
SECONDS_BETWEEN_LOOKS = 0.05


def main(*, folder: str, form: str, stores: tuple[int, int]) -> dict[str, float]:
    """Measure one format."""
    found: dict[str, float] = {}
    with feeding.nodes(["data"], STORE_BYTES):
        for size, factor in zip(("small", "large"), stores, strict=True):
            place = Path(folder, size)
            rows = many_rows.write_rows(place, form, factor * STORE_BYTES)
            before = spilled()
            started = time.perf_counter()
            peaks = read(plan_of(size, place, form), rows)
            found |= {f"{who}, {size}": peak for who, peak in peaks.items()}
            found[f"seconds, {size}"] = time.perf_counter() - started
            found[f"spilled, {size}"] = spilled() - before
            shutil.rmtree(place)
    return found


def plan_of(name: str, folder: Path, form: str) -> DatasetPlan:
    """Return the plan of a dataset whose rows are counted as they come, where files do not."""
    kind = many_rows.KINDS[form]
    spec = DatasetSpec.model_validate(
        {
            "read": kind.read(form, folder),
            "cache": "none",
            "shuffle": {"mode": "blocks"},
            "transforms": list(kind.transforms),
            "feed": {"lastBatch": "keep"},
        }
    )
    source = open_source(Disk(folder), spec.read, f"spec.data.datasets.{name}.read")
    measured = Measured(float(kind.row_bytes), keeps_rows=True)
    return plan_dataset(name, spec, source, measured, feeding.ROOM, RANKS, may_learn=True)


def read(plan: DatasetPlan, rows: int) -> dict[Role, float]:
    """Read a pass; return the most memory that a process of each kind had for itself, in bytes."""
    ranks = feeding.ranks_on(["data"] * RANKS)
    client = feeding.feed([plan], ranks=RANKS)
    at = feeding.pass_of(plan, RANKS, int(STEP_BYTES / plan.row_bytes))
    with Watch() as watch:
        counts: list[int] = ray.get(
            [rank.count.remote(plan, at, handle_of(client)) for rank in ranks]
        )
    assert sum(counts) == rows, f"{sum(counts)} rows came of {rows}"
    for rank in ranks:
        ray.kill(rank)
    ray.kill(handle_of(client))
    return watch.most


def spilled() -> float:
    """Return the bytes that the node has spilled so far."""
    (node,) = ray.nodes()  # type: ignore[no-untyped-call]
    stats = node_stats(  # type: ignore[no-untyped-call]
        node["NodeManagerAddress"], node["NodeManagerPort"], include_memory_info=False
    )
    return float(stats.store_stats.spilled_bytes_total)


class Watch(threading.Thread):
    """Looks at the memory of the processes of this program's Ray."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most: dict[Role, float] = {}
        self._ended = threading.Event()

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        """Look until told to end."""
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            for process in processes():
                # Who has just gone is looked at no more.
                with contextlib.suppress(OSError, StopIteration):
                    if role := role_of(process):
                        self.most[role] = max(self.most.get(role, 0), feeding.own_bytes(process))


def processes() -> list[Path]:
    """Return what /proc has of all that this program has started, and they in turn."""
    found, seen = [], [str(os.getpid())]
    while seen:
        process = seen.pop()
        found.append(Path("/proc", process))
        with contextlib.suppress(OSError):  # who has just gone
            children = found[-1] / "task" / process / "children"
            seen += children.read_text(encoding="ascii").split()
    return found


def role_of(process: Path) -> Role | None:
    """Return what a process of Ray is here."""
    words = (process / "cmdline").read_bytes().partition(b"\0")[0].decode()
    name = words.removeprefix("ray::")
    if name == words:
        return None
    if name.startswith("Rank"):
        return "worker"
    if name.startswith("Coordinator"):
        return "coordinator"
    return "task" if name.startswith(("Read", "IDLE")) else None


if __name__ == "__main__":
    start(main)
