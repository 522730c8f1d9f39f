"""Runs an API server on this machine, and many requests to it at once."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeVar

from tests.control_plane.plugin import create_trainingrun_crd, run_control_plane

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

    from hack.cluster.client import Client

T = TypeVar("T")
CONNECTIONS = 16


@contextlib.contextmanager
def api_server(folder: Path) -> Iterator[Client]:
    """Run an API server with the CRDs of KubeRay and Trainshed."""
    with run_control_plane(folder) as client:
        create_trainingrun_crd(client)
        yield client


async def all_at_once(
    do: Callable[[T], Awaitable[object]], things: Iterable[T], width: int = CONNECTIONS
) -> None:
    """Do something with each of the things, so many at a time."""
    rest = iter(things)

    async def work() -> None:
        for thing in rest:
            await do(thing)

    await asyncio.gather(*(work() for _ in range(width)))
