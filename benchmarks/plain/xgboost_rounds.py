"""Boosts by xgboost.train in one process and takes the seconds of the rounds."""

import argparse
import json
import time
from pathlib import Path

import xgboost

from benchmarks.plain.files import read_rows


def main() -> None:
    """Read all rows, boost, and write the seconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--params", type=json.loads, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    x, y = read_rows(options.data)
    matrix = xgboost.QuantileDMatrix(x.numpy(), y.numpy(), nthread=options.threads)
    params = {**options.params, "nthread": options.threads, "tree_method": "hist"}
    began = time.perf_counter()
    xgboost.train(params, matrix, options.rounds)
    options.out.write_text(str(time.perf_counter() - began), encoding="utf-8")


if __name__ == "__main__":
    main()
