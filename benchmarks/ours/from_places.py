"""Streams files from wherever they lie to a rank that only takes its batches."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.ours import feeding
from benchmarks.ours.loading import STORE_BYTES, WAYS, epochs_of, prepared, start_for
from benchmarks.plain.case import read_cases
from benchmarks.plain.program import start
from trainshed.data.sources.local_cache import folder_here

WAY = WAYS["streamed, 2 CPUs"]


def main(
    *, listed: str, folder: str, epochs: int, places: dict[str, str], local_cache: str
) -> dict[str, list[dict[str, float]]]:
    """Take the batches of each case; processes of data and rank are there before."""
    cases = read_cases(listed)
    found = {}
    with feeding.nodes(["all"], STORE_BYTES):
        ranks = feeding.ranks_on(["all"])
        warm = prepared(cases[0], places[cases[0].folder], WAY, 1, Path(folder))
        client = start_for(warm)
        epochs_of(warm, client, ranks)
        for case in cases:
            path = places[case.folder]
            keeps = local_cache
            if keeps:
                shutil.rmtree(folder_here(), ignore_errors=True)
            run = prepared(case, path, WAY, epochs, Path(folder), local_cache=keeps)
            found[case.name] = epochs_of(run, client, ranks)
    return found


if __name__ == "__main__":
    start(main)
