"""How the ranks of XGBoost come together: its tracker in rank 0, which gloo tells the others of."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from xgboost import RabitTracker, collective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.worker.step_sync import Control

# As long as torch's group waits (ray_train/gloo.py); XGBoost's own 300 s are less than some
# shares take to be read.
TIMEOUT_SECONDS = 1800


@contextlib.contextmanager
def joined(control: Control, rank: int, world_size: int) -> Iterator[None]:
    """Be a rank of XGBoost's group as one is of torch's. A collective.

    Raises:
        XGBoostError: when a peer is gone.
    """
    if world_size == 1:
        yield
        return
    tracker, port = None, 0
    address = os.environ["MASTER_ADDR"]  # rank 0's, by which torch's group came together
    if rank == 0:
        # By task: ranks are those of the tasks' names in their order, so XGBoost's are ours.
        tracker = RabitTracker(n_workers=world_size, host_ip=address, sortby="task")
        tracker.start()
        port = int(tracker.worker_args()["dmlc_tracker_port"])
    collective.init(
        dmlc_communicator="rabit",
        dmlc_tracker_uri=address,
        dmlc_tracker_port=control.from_leader(port),
        dmlc_task_id=f"{rank:08}",
        dmlc_timeout=TIMEOUT_SECONDS,
    )
    yield
    # Only where all went well: it waits for all ranks, and who failed is ended by Ray.
    collective.finalize()
    if tracker is not None:
        tracker.wait_for()
