"""Records the time of each step of rank 0, and when a worker was killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

KILLED, STEPS = "killed.json", "steps.jsonl"


class StepLog:
    """Records the steps of rank 0, and kills rank 1 once.

    Args:
        folder: for the records.
        rank: rank of this worker.
    """

    def __init__(self, folder: str, rank: int) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._rank = rank
        self._process = f"{socket.gethostname()}/{os.getpid()}"

    def record(self, step: int, kill_at: int = 0) -> None:
        """Record that a step has finished; rank 1 kills itself once, after step `kill_at`."""
        now = time.time()
        if self._rank == 0:
            line = json.dumps({"step": step, "time": now, "process": self._process})
            with (self._folder / STEPS).open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        elif self._rank == 1 and step == kill_at and not (self._folder / KILLED).exists():
            text = json.dumps({"step": step, "time": now})
            (self._folder / KILLED).write_text(text, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)


def read_recovery(folder: Path) -> dict[str, float]:
    """Return the seconds from the kill to the first step of new workers, and repeated steps."""
    killed = json.loads((folder / KILLED).read_text(encoding="utf-8"))
    lines = (folder / STEPS).read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    following = next(step for step in steps if step["process"] != steps[0]["process"])
    return {
        "seconds": following["time"] - killed["time"],
        "redone": killed["step"] - following["step"] + 1,
    }
