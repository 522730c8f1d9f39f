"""Measures epochs of a worker on a node without CPUs for data, which another node prepares."""

from __future__ import annotations

from pathlib import Path

from benchmarks.ours import feeding
from benchmarks.ours.loading import WAYS, epochs_of, prepared, start_for
from benchmarks.plain.case import read_cases
from benchmarks.plain.program import start

STORE_BYTES = 2**29
APART = "streamed, 2 CPUs"
LABELS = (("side", "data"),)


def main(*, listed: str, folder: str, epochs: int, pause: float) -> list[dict[str, float]]:
    """Return the epoch times of one case, with a pause after each batch."""
    (case,) = read_cases(listed)
    with feeding.nodes(["train", "data"], STORE_BYTES):
        ranks = feeding.ranks_on(["train"])
        apart = prepared(case, case.folder, WAYS[APART], epochs, Path(folder))
        client = start_for(apart)
        warm = prepared(case, case.folder, WAYS[APART], 1, Path(folder))
        epochs_of(warm, client, ranks, labels=LABELS)
        return epochs_of(apart, client, ranks, labels=LABELS, pause=pause)


if __name__ == "__main__":
    start(main)
