"""The controller and the uninstall hook as in their Pods: processes that end, or are ended."""

import asyncio
import json
import os
import sys
from pathlib import Path

from hack.chart.helm import render_chart
from hack.tools.finder import find
from tests.control_plane.objects import make_run
from tests.control_plane.world import World
from tests.control_plane.worlds import Worlds
from tests.kuberay.api import JOBS, Kind

DEPLOYMENTS = Kind("/apis/apps/v1", "deployments")


async def test_a_process_that_is_killed_is_followed_by_one_that_stops_when_told(
    worlds: Worlds,
) -> None:
    # A process: all other tests kill a thread. It also begins and ends as its image does.
    async with worlds.open(is_process=True) as world:
        world.drivers.steps = 40
        await world.kubectl("create", "-f", "-", stdin=json.dumps(make_run("digits")))
        await world.phase("Running")

        await world.kill_controller()
        await world.start_controller()
        # It tells what it has written: who is stopped in between tells nothing.
        await world.until(lambda: '"phase": "Succeeded"' in world.controller_log())

        assert len(world.drivers.claims) == 1
        assert await world.stop_controller() == 0
        lines = [json.loads(line) for line in world.controller_log().splitlines()]
        watching = f"watching {world.namespace}"
        assert [line["message"] for line in lines].count(watching) == 2
        assert not [line for line in lines if line["logger"] == "trainshed.served"]
        told = [line for line in lines if line.get("run") == f"{world.namespace}/digits"]
        assert [line["phase"] for line in told if "phase" in line][-1] == "Succeeded"


async def test_an_uninstall_leaves_nothing_running_and_a_reinstall_starts_nothing(
    world: World, chart: Path
) -> None:
    shown = "--show-only=templates/controller/uninstall.yaml"
    options = (shown, "--set=preset=laptop")
    objects = render_chart(str(find("helm")), chart, *options, namespace=world.namespace)
    await world.kubectl("create", "-f", "-", stdin=objects)
    account = f"system:serviceaccount:{world.namespace}:trainshed-uninstall"
    identity = world.control_plane.user_kubeconfig(account, groups=["system:serviceaccounts"])
    await world.kubectl("create", "deployment", "trainshed-controller", "--image=x:1")
    world.drivers.steps = 500
    await world.create_run("live")
    await world.phase("Running", "live")

    # A process: it is what the hook's Pod runs, with its variables and its exit code.
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "trainshed_controller.uninstall",
        env={
            **os.environ,
            **world.environment,
            "KUBECONFIG": str(identity),
            "TRAINSHED_CONTROLLER_DEPLOYMENT": "trainshed-controller",
        },
    )  # fmt: skip
    assert await done.wait() == 0

    assert await world.names(JOBS) == []
    assert (await world.status("live")).phase == "Suspended"
    assert next(iter(world.drivers.kept.values())) > 0
    deployment = await world.get(DEPLOYMENTS, "trainshed-controller")
    assert deployment
    assert deployment["spec"]["replicas"] == 0  # type: ignore[index,call-overload]  # JSON
    await world.kill_controller()
    await world.start_controller()
    await world.create_run("later")
    await world.phase("Running", "later")
    assert (await world.status("live")).phase == "Suspended"
