"""Blocks out of the object store, in bounded time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ray
from ray.exceptions import GetTimeoutError

from trainshed.faults import WorldError

if TYPE_CHECKING:
    from ray.data.block import Block

# A block is there when it is asked for, but for its way, or for a task that Ray runs again because
# its node is lost. A worker holds up nobody meanwhile.
WORKER_SECONDS = 300.0
# A task keeps its CPU while it waits for a lost block, in Ray 2.60: where tasks that wait have all
# CPUs, none is left for those that would make the blocks again.
TASK_SECONDS = 60.0


class LostBlockError(WorldError):
    """A block that did not come: it was lost with its node and is not made again."""


def fetched(block: ray.ObjectRef[Block], field: str, seconds: float) -> Block:
    """Return a block; waits for it.

    Args:
        block: of rows.
        field: of the dataset.
        seconds: to wait at most.

    Raises:
        LostBlockError: when it does not come.
    """
    try:
        return ray.get(block, timeout=seconds)
    except GetTimeoutError as error:
        lost = f"{field}: a block of rows did not come within {seconds:g} s, as with a lost node"
        raise LostBlockError(lost, "node") from error
