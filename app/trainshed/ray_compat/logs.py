"""What Ray's libraries log: quieter on the console, and warnings that matter in plain words."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from ray._private.log import PlainRayHandler

if TYPE_CHECKING:
    from collections.abc import Callable

# By Ray 2.60's own words: resource_manager.py, streaming_executor_state.py, issue_detection.
_NO_ROOM = re.compile(r"Cluster resources are not enough to run any task from (?P<task>[^\n]+)\. ")
_NO_OUTPUT = re.compile(r"Operator (?P<task>[^\n]+) is running but has no outputs for (?P<s>\d+)")
_HIGH_MEMORY = re.compile(
    r"Operator '(?P<task>[^']+)' uses (?P<mean>\S+) of memory per worker on average \(up to\s+"
    r"(?P<most>\S+)\)"
)
_HANGING = re.compile(
    r"A task \(.*?\) of operator (?P<task>.+?) (\(.*\) )?has been running or stuck in scheduling "
    r"for (?P<s>\d+)",
    re.DOTALL,
)
_WORDS = {
    _NO_ROOM: "no task of {task} found a free CPU or its task.memory for a minute. Check that the "
    "nodes of data.placement have data.cpus CPUs and that memory besides those of the workers",
    _NO_OUTPUT: "a task of {task} has run for {s} s without a row: storage or a function is slow, "
    "or hangs",
    _HIGH_MEMORY: "a task of {task} takes {mean} of memory, up to {most}, which Ray does not "
    "count. Lower data.cpus or the transform's batchSize to use less at once",
    _HANGING: "a task of {task} has run for {s} s, far longer than others: storage or a function "
    "hangs, or one file is far larger",
}


def quiet(library: str, level: int) -> None:
    """Let a library of Ray's, such as `ray.data`, write to the console from a level on only.

    Its log files still have everything. Call it when the library has set its handlers up; each of
    its processes has its own.
    """
    for handler in logging.getLogger(library).handlers:
        if isinstance(handler, PlainRayHandler):
            handler.setLevel(level)


def heed(library: str, tell: Callable[[str], None]) -> None:
    """Have the warnings of a library of Ray's told that matter, each kind once.

    Call it when the library has set its handlers up.

    Args:
        library: such as `ray.data`.
        tell: is told.
    """
    logging.getLogger(library).addHandler(_Heeding(tell))


class _Heeding(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a record, if it is the first of a kind that matters."""
        said = record.getMessage()
        for pattern, words in _WORDS.items():
            if found := pattern.search(said):
                if pattern.pattern not in self._told:
                    self._told.add(pattern.pattern)
                    known = {name: text.strip() for name, text in found.groupdict().items()}
                    self._tell(words.format(**known))
                return
