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
# More than this share of the cores in use by others spoils the figures.
IDLE_BELOW = 0.10
PATIENCE_SECONDS = 120


def machine() -> dict[str, str | int]:
    """Return what the figures were measured on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    versions = {library: metadata.version(library) for library in LIBRARIES}
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memoryGiB": round(pages / 2**30),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "python": platform.python_version(),
        **versions,
        **_gpu(),
    }


def _gpu() -> dict[str, str]:
    """Return the first GPU and its CUDA, where there is one."""
    if not torch.cuda.is_available():
        return {}
    return {"gpu": torch.cuda.get_device_name(0), "cuda": str(torch.version.cuda)}


def describe() -> str:
    """Return the machine in one line."""
    found = machine()
    words = [f"{found['cores']} cores", f"{found['memoryGiB']} GiB", str(found["system"])]
    return ", ".join([*words, str(found["gpu"])] if "gpu" in found else words)


def wait_until_idle() -> float:
    """Wait until others leave the cores alone; return the share of them that is still in use."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (busy := _busy_share()) > IDLE_BELOW and time.monotonic() < deadline:
        pass  # looking takes its time
    if busy > IDLE_BELOW:
        print(f"others use {busy:.0%} of the cores: figures are off", file=sys.stderr)
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
