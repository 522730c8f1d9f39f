"""Streams files from wherever they lie to a rank that only takes its batches."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from benchmarks.ours import feeding
from benchmarks.ours.loading import STORE_BYTES, WAYS, epochs_of, prepared, start_for
from benchmarks.plain.case import read_cases
from trainshed.data.sources.local_cache import folder_here

WAY = WAYS["streamed, 2 CPUs"]


def main() -> None:
    """Take the batches of each case; processes of data and rank are there before."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--places", type=json.loads, required=True)
    parser.add_argument("--local-cache", default="", help="of files, empty before each case")
    options = parser.parse_args()
    cases = read_cases(options.cases)
    found = {}
    with feeding.nodes(["all"], STORE_BYTES):
        ranks = feeding.ranks_on(["all"])
        warm = prepared(cases[0], options.places[cases[0].folder], WAY, 1, options.folder)
        client = start_for(warm)
        epochs_of(warm, client, ranks)
        for case in cases:
            path = options.places[case.folder]
            keeps = options.local_cache
            if keeps:
                shutil.rmtree(folder_here(), ignore_errors=True)
            run = prepared(case, path, WAY, options.epochs, options.folder, local_cache=keeps)
            found[case.name] = epochs_of(run, client, ranks)
    options.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
