"""The whole process, as far as it needs no real API server."""

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from trainshed_controller.model import Settings
from trainshed_controller.operator import Operator
from trainshed_controller.settings import Platform, Timings

if TYPE_CHECKING:
    from collections.abc import Callable


def write_kubeconfig(folder: Path, server: str) -> Path:
    """Return a file that names an API server."""
    path = folder / "kubeconfig"
    named = {"clusters": "cluster", "users": "user", "contexts": "context"}
    values: dict[str, dict[str, str]] = {
        "cluster": {"server": server},
        "user": {},
        "context": {"cluster": "c", "user": "c"},
    }
    lists = {kind: [{"name": "c", one: values[one]}] for kind, one in named.items()}
    path.write_text(yaml.safe_dump({**lists, "current-context": "c"}))
    return path


async def test_an_api_server_that_refuses_all_is_asked_for_the_key_alone(tmp_path: Path) -> None:
    asked: list[str] = []
    ends: list[Callable[[], object]] = []

    async def refuse(request: web.Request) -> web.Response:
        asked.append(request.path)
        if len(asked) > 3:
            ends[0]()
        return web.Response(status=403)

    async def operate(platform: Platform) -> None:
        stop = asyncio.Event()
        ends.append(partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set))
        await Operator(platform).run(stop)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", refuse)
    async with TestServer(application) as server, asyncio.timeout(60):
        platform = Platform(
            Settings(),
            kubeconfig=write_kubeconfig(tmp_path, str(server.make_url(""))),
            host="127.0.0.1",
            health_port=0,
            timings=Timings(retry_seconds=0.01),
        )
        # In a thread, as kopf ends all tasks of its loop.
        await asyncio.to_thread(asyncio.run, operate(platform))

    assert set(asked) == {"/api/v1/namespaces/default/secrets/trainshed-progress-key"}
