"""Ours beside ours of an earlier commit: what changes since then cost, or gained.

Pairs in turn, ABBA, of four runs each: whole job, rate and first batches of a stream, a checkpoint
of 256 MB, a killed worker. Both sides have the libraries of this environment and train the same.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import ceiling, checkpoint, first_batch, recovery, rows, trainingrun, whole_job
from benchmarks.measure import Figure, Sample, Target, in_turn, options, publish
from benchmarks.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

# The last one before runs were known by a hash that outlives releases (docs/decisions/0018).
COMMIT = "422d315"
MEGABYTES = 256
CHECKPOINTS = 4
# What differs by less is not told apart on a virtual machine: the same run moves by as much.
SPREAD = 0.05
LESS, MORE = Target("ratio", "<=", 1 + SPREAD), Target("ratio", ">=", 1 - SPREAD)
# What, unit, and what should be of it.
MEASURES = {
    "job": ("whole job", "s", LESS),
    "rate": ("rate of a stream, steady", "rows/s", MORE),
    "cold": ("first batch of a stream, cold", "s", LESS),
    "warm": ("first batch of a stream, warm", "s", LESS),
    f"copy {MEGABYTES} MB": (f"checkpoint of {MEGABYTES} MB", "ms", LESS),
    "seconds": ("killed worker until the next step", "s", LESS),
}


def main() -> None:
    """Measure both."""
    given = options(__doc__)
    with tempfile.TemporaryDirectory(prefix="trainshed-earlier-") as folder:
        check_out(COMMIT, Path(folder))
        trees = {COMMIT: Path(folder), "now": ROOT}
        sides = {name: partial(measure, tree, given.cache) for name, tree in trees.items()}
        samples = in_turn(sides, given, is_mirrored=True)
    figures: list[Figure] = []
    for key, (what, unit, target) in MEASURES.items():
        before = samples.of(COMMIT, key)
        figures += [
            Figure(f"{COMMIT}: {what}", unit, before),
            Figure(f"now: {what}", unit, samples.of("now", key), (COMMIT, before), target),
        ]
    publish("releases", figures, samples, given)


def check_out(commit: str, folder: Path) -> None:
    """Write the packages of a commit into a folder."""
    archive = folder / "files.tar"
    packed = ["git", "archive", f"--output={archive}", commit, "api", "app"]
    subprocess.run(packed, cwd=ROOT, check=True, timeout=60)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")


def measure(tree: Path, cache: Path, folder: Path) -> Sample:
    """Run all four with the packages of a tree."""
    data = rows.make(rows.CIFAR, cache)
    wide = ceiling.Job(rows.CIFAR, (256,), 128)
    places = {name: folder / name for name in ("job", "stream", "checkpoint", "recovery")}
    for place in places.values():
        place.mkdir()
    with packages_of(tree):
        job = trainingrun.train(places["job"], whole_job.spec(data, rows.CIFAR.features))
        sample = {"job": job.seconds}
        sample |= ceiling.ours(wide, data, "none", ceiling.LOCAL, places["stream"])
        sample |= first_batch.first_batches(places["stream"] / "epochs.json")
        few = checkpoint.rows_for(CHECKPOINTS, cache)
        sample |= checkpoint.ours_of(MEGABYTES, few, places["checkpoint"])
        sample |= recovery.ours(recovery.make_rows(cache), places["recovery"])
    return sample


@contextmanager
def packages_of(tree: Path) -> Iterator[None]:
    """Have the runs of this process use the packages of a tree."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(tree / "api"), str(tree / "app")])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


if __name__ == "__main__":
    main()
