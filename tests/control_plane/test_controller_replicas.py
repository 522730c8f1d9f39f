"""Two controllers of one release: one acts, and the other one when it is lost."""

import time
from dataclasses import replace
from pathlib import Path

import aiohttp

from hack.cluster.ports import pick_ports
from tests.control_plane.controllers import ControllerThread
from tests.control_plane.interference import Interference
from tests.control_plane.world import World
from tests.kuberay.api import JOBS
from trainshed_api.snapshot import Snapshot
from trainshed_controller.settings import read_platform


async def test_a_standby_passes_posts_on_and_takes_over_within_15_seconds(
    world: World, tmp_path: Path
) -> None:
    world.drivers.steps = 200
    await world.create_run()
    await world.phase("Running")
    progress, health = pick_ports(2)
    platform = read_platform(world.environment)
    async with Interference(world.api.kubeconfig) as between:
        config = between.write_kubeconfig(tmp_path / "kubeconfig")
        standby = ControllerThread(
            replace(
                platform, kubeconfig=config, identity="standby", progress_port=progress,
                progress_address=f"127.0.0.1:{progress}", health_port=health,
            ),
            between.hang_up,
        )  # fmt: skip
        try:
            await world.until(standby.is_ready)
            assert await _post(f"http://127.0.0.1:{progress}") == 401
            assert [request for request in between.requests if request.is_write] == []

            await world.kill_controller()
            lost = time.monotonic()
            await world.create_run("second", priority=1, workers={"count": 1})
            await world.until(lambda: bool(between.writes()))
            assert time.monotonic() - lost < 15

            world.drivers.steps = 3
            await world.until(lambda: "watching" in standby.log())
            assert await world.names(JOBS) == ["digits-1", "second-1"]
        finally:
            await standby.kill()


async def _post(url: str) -> int:
    path = "/v1/namespaces/n/trainingruns/digits/u/attempts/1/progress"
    text = Snapshot(attempt=1, time=time.time(), state="Training").model_dump_json(by_alias=True)
    async with aiohttp.ClientSession() as session, session.post(f"{url}{path}", data=text) as said:
        return said.status
