"""Reads epochs on a node without data that another one prepares; writes the times of the epochs.

Processes of data and rank are there before.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.ours import feeding
from benchmarks.ours.loading import WAYS, epochs_of, prepared, start_for
from benchmarks.plain.case import read_cases

STORE_BYTES = 2**29
APART = "streamed, 2 CPUs"
ALONE = "torch, 0 processes"
LABELS = (("side", "data"),)


def main() -> None:
    """Measure one case: apart, with a pause after each batch, and on the worker's own core."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--pause", type=float, required=True)
    options = parser.parse_args()
    (case,) = read_cases(options.cases)
    with feeding.nodes(["train", "data"], STORE_BYTES):
        ranks = feeding.ranks_on(["train"])
        apart = prepared(case, case.folder, WAYS[APART], options.epochs, options.folder)
        alone = prepared(case, case.folder, WAYS[ALONE], 1, options.folder)
        client = start_for(apart)
        warm = prepared(case, case.folder, WAYS[APART], 1, options.folder)
        epochs_of(warm, client, ranks, labels=LABELS)
        found = {
            "apart": epochs_of(apart, client, ranks, labels=LABELS, pause=options.pause),
            "alone": epochs_of(alone, client, ranks),
        }
    options.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
