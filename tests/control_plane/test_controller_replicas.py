"""Two controllers of one release: one acts, and the other one when it is lost."""

import base64
import time
from dataclasses import replace
from pathlib import Path

import aiohttp

from hack.cluster.ports import pick_ports
from tests.control_plane.controllers import ControllerThread
from tests.control_plane.interference import Interference
from tests.control_plane.objects import RUNS
from tests.control_plane.world import World
from tests.kuberay.api import JOBS, SECRETS
from trainshed_api.json_object import as_object
from trainshed_api.snapshot import Snapshot
from trainshed_controller.render import progress_path, progress_token
from trainshed_controller.settings import read_platform


async def test_a_standby_passes_posts_on_and_takes_over_within_15_seconds(
    world: World, tmp_path: Path
) -> None:
    world.drivers.steps = 400
    world.drivers.mute = True
    await world.create_run()
    await world.phase("Starting")
    progress, health = pick_ports(2)
    platform = read_platform(world.environment)
    async with Interference(world.api.kubeconfig) as between:
        config = between.write_kubeconfig(tmp_path / "kubeconfig")
        standby = ControllerThread(
            replace(
                platform, kubeconfig=config, identity="standby", progress_port=progress,
                health_port=health,
            ),
            between.hang_up,
        )  # fmt: skip
        try:
            await world.until(standby.is_ready)
            assert await _post(world, progress) == 200
            await world.phase("Running")
            # So it was the holder that heard the post.
            assert [request for request in between.requests if request.is_write] == []
            world.drivers.mute = False

            await world.kill_controller()
            lost = time.monotonic()
            await world.create_run("second", priority=1, workers={"count": 1})
            await world.until(lambda: bool(between.writes()))
            assert time.monotonic() - lost < 15

            world.drivers.steps = 3
            await world.until(lambda: "watching" in standby.log())
            await world.holds(JOBS, "digits-1", "second-1")
        finally:
            await standby.kill()


async def _post(world: World, port: int) -> int:
    """Post as the driver of `digits`; return the status of the answer."""
    secret, run = (
        await world.get(SECRETS, "trainshed-progress-key"),
        await world.get(RUNS, "digits"),
    )
    assert secret
    assert run
    key = base64.b64decode(str(as_object(secret["data"])["key"]))
    whose = world.namespace, "digits", str(as_object(run["metadata"])["uid"]), 1
    snapshot = Snapshot(attempt=1, time=time.time(), state="Training")
    headers = {"Authorization": f"Bearer {progress_token(key, *whose)}"}
    url = f"http://127.0.0.1:{port}{progress_path(*whose)}"
    body = snapshot.model_dump_json(by_alias=True)
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url, data=body) as answer,
    ):
        return answer.status
