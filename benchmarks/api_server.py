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


async def for_each(items: Iterable[T], call: Callable[[T], Awaitable[object]]) -> None:
    """Await a call for each item, CONNECTIONS of them at a time."""
    remaining = iter(items)

    async def work() -> None:
        for item in remaining:
            await call(item)

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
