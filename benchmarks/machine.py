"""Describes the machine that figures are measured on, and waits until it is idle."""

from __future__ import annotations

import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path

import torch

LIBRARIES = ("ray", "torch", "numpy", "pyarrow")
# Figures are not comparable while other programs use more than this share of the cores.
MAX_BUSY = 0.10
MAX_WAIT_SECONDS = 120


def machine() -> dict[str, str | int]:
    """Return cores, memory, system, versions and the first GPU, if there is one."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    gpu = {}
    if torch.cuda.is_available():
        gpu = {"gpu": torch.cuda.get_device_name(0), "cuda": str(torch.version.cuda)}
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memoryGiB": round(memory_bytes / 2**30),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "python": platform.python_version(),
        **{library: metadata.version(library) for library in LIBRARIES},
        **gpu,
    }


def describe() -> str:
    """Return the machine in one line."""
    found = machine()
    parts = [f"{found['cores']} cores", f"{found['memoryGiB']} GiB", str(found["system"])]
    return ", ".join([*parts, str(found["gpu"])] if "gpu" in found else parts)


def wait_until_idle() -> float:
    """Wait until other programs leave the cores idle; return the share that they still use."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while (busy := _busy_share()) > MAX_BUSY and time.monotonic() < deadline:
        pass  # _busy_share sleeps
    if busy > MAX_BUSY:
        print(f"other programs use {busy:.0%} of the cores: do not publish", file=sys.stderr)
    return busy


def _busy_share(seconds: float = 2.0) -> float:
    """Return the share of all cores that is used during these seconds."""

    def ticks() -> tuple[int, int]:
        # proc(5): user nice system idle iowait ...
        numbers = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return sum(numbers), numbers[3] + numbers[4]

    all_before, idle_before = ticks()
    time.sleep(seconds)
    all_after, idle_after = ticks()
    return 1 - (idle_after - idle_before) / (all_after - all_before)
