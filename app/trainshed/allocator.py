"""What glibc does with memory that a step, or a block of rows, lets go of: the next one has it."""

from __future__ import annotations

import ctypes
import os

# mallopt(3): parameters, and the values at which glibc arrives by itself once a block of 32 MB,
# which is the most that it takes, was freed. Before that each step gives the pages of its batch and
# gradients back to the kernel and maps new ones: a third of a small network's time on a CPU.
# What reads does so with each block: a fifth of its time.
_TRIM, _MMAP = -1, -3
TRIM_BYTES, MMAP_BYTES = 64 * 2**20, 32 * 2**20
# Who says it for himself is not contradicted.
USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> None:
    """Let this process keep up to 64 MB that is free, and take blocks below 32 MB out of it.

    It does nothing where the environment sets glibc's own variables, or there is no glibc.
    """
    library = ctypes.CDLL(None)
    if any(name in os.environ for name in USERS) or not hasattr(library, "mallopt"):
        return
    library.mallopt(_TRIM, TRIM_BYTES)
    library.mallopt(_MMAP, MMAP_BYTES)
