"""Attempts that are stopped while they wait for rows."""

import time
from pathlib import Path

from tests.app import waiting_functions
from tests.app.alone import Left, train_alone
from tests.app.failing_runs import Spec
from trainshed.attempt.signals import Stop

READ: Spec = {"read": {"format": "parquet", "path": "rows"}, "shuffle": {"mode": "none"}}


def stop_while_waiting(home: Path, spec: Spec, steps: int, reads: int = 0) -> tuple[Left, float]:
    """Return an attempt that is stopped where its rows do not arrive, and how long that took.

    reads: of these rows before they are held.
    """
    stop = Stop()
    waiting_functions.released.clear()
    waiting_functions.stop, waiting_functions.steps_before = stop, steps
    waiting_functions.reads_before = reads
    try:
        begun = time.monotonic()
        left = train_alone(home, spec, stop=stop)
        return left, time.monotonic() - begun
    finally:
        waiting_functions.released.set()
        waiting_functions.stop = None
