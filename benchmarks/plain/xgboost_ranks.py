"""Boosts by xgboost.train in processes that XGBoost itself brings together, one thread each."""

import argparse
import json
import multiprocessing
import time
from pathlib import Path

import xgboost
from xgboost import RabitTracker, collective

from benchmarks.plain.files import read_rows


def boost(rank: int, options: argparse.Namespace, tracker: dict[str, str | int]) -> None:
    """Read a share of the rows, boost with the others, and write the seconds."""
    x, y = read_rows(options.data)
    mine = slice(rank * len(y) // options.ranks, (rank + 1) * len(y) // options.ranks)
    with collective.CommunicatorContext(**tracker, dmlc_task_id=str(rank)):
        matrix = xgboost.QuantileDMatrix(x[mine].numpy(), y[mine].numpy(), nthread=1)
        params = {**options.params, "nthread": 1, "tree_method": "hist"}
        began = time.perf_counter()
        xgboost.train(params, matrix, options.rounds)
        if rank == 0:
            options.out.write_text(str(time.perf_counter() - began), encoding="utf-8")


def main() -> None:
    """Start the processes and wait for them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--params", type=json.loads, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    options = parser.parse_args()
    tracker = RabitTracker(n_workers=options.ranks, host_ip="127.0.0.1", sortby="task")
    tracker.start()
    context = multiprocessing.get_context("spawn")
    words = (options, tracker.worker_args())
    ranks = [context.Process(target=boost, args=(rank, *words)) for rank in range(options.ranks)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    tracker.wait_for()
    if any(process.exitcode for process in ranks):
        raise SystemExit("a rank failed")


if __name__ == "__main__":
    main()
