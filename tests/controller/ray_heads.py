"""Ray heads in this process: what the controller asks them is answered as a test wants, or not."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import JsonValue

from trainshed_controller.jobs import JobsApi


@dataclass
class RayHeads:
    """The heads of all RayClusters, by name.

    Attributes:
        jobs: what is said of each job; of others, that nobody knows them.
        logs: what each printed.
        silent: clusters whose heads take requests and never answer.
        asked: each request, as cluster and path, in order.
        busy, most_busy: how many requests each head has in hand, and had at most.
    """

    jobs: dict[str, JsonValue] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)
    busy: Counter[str] = field(default_factory=Counter)
    most_busy: Counter[str] = field(default_factory=Counter)

    async def __aenter__(self) -> "RayHeads":
        application = web.Application()
        application.router.add_get("/{cluster}/api/jobs/{path:.*}", self._answer)
        application.router.add_post("/{cluster}/api/jobs/{job}/stop", self._stop)
        self._server = TestServer(application)
        await self._server.start_server()
        self.client = JobsApi(f"{self._server.make_url('/')}{{cluster}}", None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self._server.close()

    async def until_asked(self, number: int) -> None:
        """Wait for so many requests."""
        async with asyncio.timeout(30):
            while len(self.asked) < number:
                await asyncio.sleep(0.005)

    async def _stop(self, request: web.Request) -> web.Response:
        self.jobs[request.match_info["job"]] = {"status": "STOPPED"}
        return web.json_response({"stopped": True})

    async def _answer(self, request: web.Request) -> web.Response:
        cluster, path = request.match_info["cluster"], request.match_info["path"]
        self.asked.append((cluster, path))
        for name in (cluster, ""):
            self.busy[name] += 1
            self.most_busy[name] = max(self.most_busy[name], self.busy[name])
        try:
            if cluster in self.silent:
                await asyncio.Event().wait()
            await asyncio.sleep(0.002)
        finally:
            self.busy.subtract((cluster, ""))
        job, _, part = path.partition("/")
        if part == "logs":
            return web.json_response({"logs": self.logs.get(job, "")})
        if job not in self.jobs:
            return web.Response(status=404)
        return web.Response(text=json.dumps(self.jobs[job]), content_type="application/json")
