"""An API server of this machine with the kinds that the controller needs, and clients of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, TypeVar

from hack.cluster.client import Client
from hack.cluster.control_plane import (
    WITHOUT_NODES,
    Site,
    answers,
    free_ports,
    start_control_plane,
    stop_control_plane,
    write_identities,
)
from hack.cluster.processes import Launcher
from tests.control_plane.plugin import find_kuberay_crds
from tests.kuberay.api import Kind
from trainshed_api import names
from trainshed_api.crd import render_crd

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

RUNS = Kind(f"/apis/{names.API_VERSION}", names.PLURAL)
T = TypeVar("T")
CONNECTIONS = 16
SECONDS_TO_SERVE = 60


@contextlib.contextmanager
def api_server(folder: Path) -> Iterator[Client]:
    """Run etcd, an API server and the controllers that owners need, with KubeRay's kinds and ours.

    Skips, as a test would, where KubeRay's CRDs are not at hand.
    """
    site = Site(folder, free_ports(), controllers=WITHOUT_NODES)
    write_identities(site)
    started = start_control_plane(site, Launcher(folder / "logs", is_tied=True))
    try:
        client = Client(site.kubeconfig("admin"))
        for file in find_kuberay_crds():
            client.kubectl("create", "--validate=false", "-f", str(file))
        client.kubectl("create", "-f", "-", stdin=json.dumps(render_crd()))
        wait_for_kinds(client)
        yield client
    finally:
        stop_control_plane(started)


def wait_for_kinds(client: Client) -> None:
    """Wait until all three kinds are served."""
    kinds = f"rayjobs.ray.io,rayclusters.ray.io,{names.PLURAL}.{names.GROUP}"
    deadline = time.monotonic() + SECONDS_TO_SERVE
    while not answers(client, "get", kinds):
        assert time.monotonic() < deadline, f"{kinds} are not served"
        time.sleep(0.1)


async def all_at_once(
    do: Callable[[T], Awaitable[object]], things: Iterable[T], width: int = CONNECTIONS
) -> None:
    """Do something with each of the things, so many at a time."""
    rest = iter(things)

    async def work() -> None:
        for thing in rest:
            await do(thing)

    await asyncio.gather(*(work() for _ in range(width)))
