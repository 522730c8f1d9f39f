"""Getting blocks in a task that others may have to make again on the CPUs that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ray
from ray.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from ray.data.block import Block

# An existing block arrives sooner, unless it is on disk; a longer wait releases the CPU.
LATE_SECONDS = 5.0


def block_of(held: ray.ObjectRef[Block]) -> Block:
    """Return a block, in a task; waits for it without a CPU where it does not come soon.

    Ray 2.60 has a task keep its CPU while it waits for an object that was there and is lost: it
    gives up those alone that wait for what was never made (release_resources_during_plasma_fetch
    of Ray's plasma_store_provider.cc). With the last node of the data all blocks were lost, and
    the tasks that wanted them had all CPUs of the one that came for it: nothing made them again.
    """
    try:
        block: Block = ray.get(held, timeout=LATE_SECONDS)
    except GetTimeoutError:
        here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
        ray.get(_arrive.options(num_cpus=0, label_selector=here).remote(held))
        block = ray.get(held)
    return block


@ray.remote
def _arrive(_block: Block) -> None:
    """Start; a task starts once its arguments are on its node."""
