"""Processes beside a test that begin at once: torch takes each new one seconds."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import forkserver as server
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess

# Imported once by the process that the others are copies of; no import starts a Python thread.
_LOADED = [
    "torch._dynamo",  # which the first optimizer imports
    "obstore",
    "trainshed.checkpoint.local_checkpoint",
    "trainshed.checkpoint.writer",
    "tests.app.checkpoint.wrapped_training",
]


def forkserver() -> ForkServerContext:
    """Return what starts processes as copies of one that has imported what they share."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    # What starts processes outlives a test, and its socket lies in what is temporary now.
    of_test, tempfile.tempdir = tempfile.tempdir, None
    try:
        server.ensure_running()
    finally:
        tempfile.tempdir = of_test
    return context


def beside(target: Callable[..., object], *arguments: object) -> BaseProcess:
    """Start a process; it ends with this one."""
    process = forkserver().Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def credentials() -> Mapping[str, str]:
    """Return this process's variables by which a client finds a bucket: another's are older."""
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
