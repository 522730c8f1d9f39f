"""Measures the rounds of `xgboost.train` in one process, or in several with a RabitTracker."""

import multiprocessing
import time
from pathlib import Path
from types import SimpleNamespace

import xgboost
from xgboost import RabitTracker, collective

from benchmarks.plain.files import read_rows


def main(**arguments: object) -> float:
    """Train and return the seconds of all rounds."""
    options = SimpleNamespace(**arguments)
    if options.ranks == 1:
        boost(0, options)
    else:
        start_ranks(options)
    return float(Path(options.out).read_text(encoding="utf-8"))


def boost(rank: int, options: SimpleNamespace) -> None:
    """Train on this rank's share of the rows; rank 0 writes the seconds."""
    x, y = read_rows(options.data)
    share = slice(rank * len(y) // options.ranks, (rank + 1) * len(y) // options.ranks)
    matrix = xgboost.QuantileDMatrix(x[share].numpy(), y[share].numpy(), nthread=options.threads)
    params = {**options.params, "nthread": options.threads, "tree_method": "hist"}
    started = time.perf_counter()
    xgboost.train(params, matrix, options.rounds)
    if rank == 0:
        Path(options.out).write_text(str(time.perf_counter() - started), encoding="utf-8")


def join(rank: int, options: SimpleNamespace, tracker: dict[str, str | int]) -> None:
    """Train as one of several ranks."""
    with collective.CommunicatorContext(**tracker, dmlc_task_id=str(rank)):
        boost(rank, options)


def start_ranks(options: SimpleNamespace) -> None:
    """Start the ranks and wait for them."""
    tracker = RabitTracker(n_workers=options.ranks, host_ip="127.0.0.1", sortby="task")
    tracker.start()
    context = multiprocessing.get_context("spawn")
    arguments = (options, tracker.worker_args())
    ranks = [context.Process(target=join, args=(rank, *arguments)) for rank in range(options.ranks)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    tracker.wait_for()
    if any(process.exitcode for process in ranks):
        raise SystemExit("a rank failed")
