"""Measures the rounds of `xgboost.train` in one process, or in several with a RabitTracker."""

import multiprocessing
import time
from pathlib import Path
from types import SimpleNamespace

import xgboost
from xgboost import RabitTracker, collective

from benchmarks.plain.files import read_rows
from benchmarks.plain.program import start


def main(**given: object) -> None:
    """Boost, and write the seconds of the rounds."""
    options = SimpleNamespace(**given)
    if options.ranks == 1:
        boost(0, options)
    else:
        start_ranks(options)


def boost(rank: int, options: SimpleNamespace) -> None:
    """Read a share of the rows, boost, and write the seconds."""
    x, y = read_rows(options.data)
    mine = slice(rank * len(y) // options.ranks, (rank + 1) * len(y) // options.ranks)
    matrix = xgboost.QuantileDMatrix(x[mine].numpy(), y[mine].numpy(), nthread=options.threads)
    params = {**options.params, "nthread": options.threads, "tree_method": "hist"}
    began = time.perf_counter()
    xgboost.train(params, matrix, options.rounds)
    if rank == 0:
        Path(options.out).write_text(str(time.perf_counter() - began), encoding="utf-8")


def join(rank: int, options: SimpleNamespace, tracker: dict[str, str | int]) -> None:
    """Train as one of several ranks."""
    with collective.CommunicatorContext(**tracker, dmlc_task_id=str(rank)):
        boost(rank, options)


def start_ranks(options: SimpleNamespace) -> None:
    """Start the ranks and wait for them."""
    tracker = RabitTracker(n_workers=options.ranks, host_ip="127.0.0.1", sortby="task")
    tracker.start()
    context = multiprocessing.get_context("spawn")
    words = (options, tracker.worker_args())
    ranks = [context.Process(target=join, args=(rank, *words)) for rank in range(options.ranks)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    tracker.wait_for()
    if any(process.exitcode for process in ranks):
        raise SystemExit("a rank failed")


if __name__ == "__main__":
    start(main)
