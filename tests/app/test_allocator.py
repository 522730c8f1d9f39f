"""Memory that a step frees is there for the next one."""

import ctypes
import os
import subprocess
import sys

import pytest

from trainshed.allocator import USERS

# Each time as much as a batch of wide rows or a gradient; the pages that are made for all of them.
STEPS, BYTES, PAGE = 50, 3 * 2**20, 4096
PROGRAM = f"""
import resource

from trainshed.allocator import keep_freed_memory

def step():
    made = [bytearray({BYTES}) for _ in range(2)]

keep_freed_memory()
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({STEPS}):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
ALL = STEPS * 2 * BYTES // PAGE

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library has no mallopt"
)


def pages(**environment: str) -> int:
    """Run the program in a process of its own; return how many pages the kernel made for it."""
    others = {name: value for name, value in os.environ.items() if name not in USERS}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=others | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(ran.stdout)


def test_pages_are_made_once_for_all_steps() -> None:
    assert pages() < ALL / STEPS


def test_what_the_environment_says_of_malloc_holds() -> None:
    assert pages(MALLOC_MMAP_THRESHOLD_="65536") > ALL / 2
