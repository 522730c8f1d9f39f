"""Processes beside a test that begin at once: torch takes each new one seconds."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess

# Loaded once by the process that the others are copies of; nothing of it has begun a thread.
_LOADED = [
    "torch",
    "obstore",
    "trainshed.checkpoint.local_checkpoint",
    "trainshed.checkpoint.writer",
]


def beside(target: Callable[..., object], *arguments: object) -> BaseProcess:
    """Start a process; it ends with this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    process = context.Process(target=target, args=arguments, daemon=True)
    # What starts processes outlives a test, and its socket lies in what is temporary now.
    of_test, tempfile.tempdir = tempfile.tempdir, None
    try:
        process.start()
    finally:
        tempfile.tempdir = of_test
    return process


def credentials() -> Mapping[str, str]:
    """Return this process's variables by which a client finds a bucket: another's are older."""
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
