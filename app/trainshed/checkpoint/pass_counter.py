"""Counts the passes over each dataset before a checkpoint of a user's function.

The row order of a pass depends on its number. A function that counts its epochs itself does not
report the number, and its counter restarts with its worker: so passes are counted here and stored
with the checkpoints.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.storage.folder import Folder

FILE = "passes.json"


class Passes:
    """Counts the passes of one worker.

    Args:
        done: passes by dataset before the checkpoint that this worker starts from.
    """

    def __init__(self, done: Mapping[str, int]) -> None:
        self.done = dict(done)
        self._open: set[str] = set()

    def begin(self, name: str) -> int:
        """Return the number of a new pass, from 0; one that was left before its end is over too."""
        if name in self._open:
            self.end(name)
        self._open.add(name)
        return self.done.setdefault(name, 0)

    def end(self, name: str) -> None:
        """Count the current pass."""
        self._open.discard(name)
        self.done[name] += 1


def write(checkpoint: Folder, done: Mapping[str, int]) -> None:
    """Record the passes before a checkpoint."""
    folder = checkpoint.parent
    folder.write(FILE, json.dumps(_read_all(folder) | {checkpoint.name: dict(done)}).encode())


def read(checkpoint: Folder) -> Mapping[str, int]:
    """Return the passes before a checkpoint; empty if they were not counted."""
    return _read_all(checkpoint.parent).get(checkpoint.name, {})


def _read_all(folder: Folder) -> dict[str, dict[str, int]]:
    try:
        found: dict[str, dict[str, int]] = json.loads(folder.read(FILE))
    except (OSError, ValueError):
        return {}
    return found
