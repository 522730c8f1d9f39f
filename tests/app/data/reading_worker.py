"""A worker whose two processes read slowly the parquet of a folder, until it is killed."""

import sys
from pathlib import Path

from trainshed.data.loader.processes import Processes
from trainshed.data.loader.requests import requests_for
from trainshed.data.sampler.fragments import Scan
from trainshed.data.sampler.function import Function
from trainshed.data.sources.fragment_reader import Part, Reading, everything
from trainshed.data.sources.parquet import open_source
from trainshed.storage.disk import Disk


def main(folder: Path) -> None:
    """Say when the first rows are there, and read no further."""
    slow = Function("tests.app.data.loader_functions:slow", "field", options=(("seconds", 0.2),))
    fragments = open_source(Disk(folder), (), "field").fragments
    wanted = [Part(each, 0, 0, each.rows, 0) for each in fragments if each.rows]
    how = Reading("field", (), (slow,), (), 4, Scan())
    processes = Processes(2)
    rows = processes.read(requests_for(how, wanted, everything, processes.number))
    next(rows)
    print("reading", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
