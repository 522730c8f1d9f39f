"""`python -m trainshed_controller.uninstall`: leave nothing running behind, and nothing that would.

Runs while the controller and KubeRay still live: live runs stop after a checkpoint and stay
suspended, so that a later installation starts nothing by itself. Then the controller goes, and the
RayJobs while KubeRay can still take its finalizer off them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from typing import TYPE_CHECKING

from trainshed_controller.cluster import Cluster
from trainshed_controller.errors import ApiError
from trainshed_controller.settings import SettingsError, read_platform
from trainshed_controller.status import open_attempt

if TYPE_CHECKING:
    from trainshed_controller.model import RayJobView, RunView
    from trainshed_controller.settings import Platform

log = logging.getLogger("trainshed.uninstall")

_SLACK_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_JOBS_SECONDS = 60.0
DEPLOYMENT = "TRAINSHED_CONTROLLER_DEPLOYMENT"


async def uninstall(cluster: Cluster, platform: Platform, deployment: str) -> None:
    """Stop all runs, the controller, and the RayJobs of runs."""
    runs = [view for view in await _runs(cluster, platform) if not _is_finished(view)]
    for view in runs:
        log.info("suspend %s/%s", view.namespace, view.name)
        await cluster.suspend_run(view)
    await _wait_for_stops(cluster, platform, runs)
    await cluster.scale_to_zero(platform.own_namespace, deployment)
    await _delete_jobs(cluster, platform)


async def _wait_for_stops(cluster: Cluster, platform: Platform, runs: list[RunView]) -> None:
    """Wait for checkpoints, as long as the most patient run may take."""
    graces = [view.run.spec.grace_period_seconds for view in runs if view.run]
    end = time.monotonic() + max(graces, default=0) + _SLACK_SECONDS
    while time.monotonic() < end:
        live = [view for view in await _runs(cluster, platform) if open_attempt(view.status)]
        if not live:
            return
        await asyncio.sleep(_LOOK_SECONDS)
    log.warning("not all runs stopped within their grace period; their RayJobs are deleted")


async def _delete_jobs(cluster: Cluster, platform: Platform) -> None:
    end = time.monotonic() + _JOBS_SECONDS
    while time.monotonic() < end:
        jobs = await _jobs(cluster, platform)
        if not jobs:
            return
        for job in jobs:
            if not job.deleting:
                log.info("delete RayJob %s/%s", job.namespace, job.name)
                await cluster.delete_job(job)
        await asyncio.sleep(_LOOK_SECONDS)
    log.warning("RayJobs are left: does KubeRay's operator run?")


async def _runs(cluster: Cluster, platform: Platform) -> list[RunView]:
    return [
        view for namespace in platform.namespaces for view in await cluster.list_runs(namespace)
    ]


async def _jobs(cluster: Cluster, platform: Platform) -> list[RayJobView]:
    """Return the RayJobs that belong to runs; others are nobody's business here."""
    owners = {view.uid for view in await _runs(cluster, platform)}
    return [
        job
        for namespace in platform.namespaces
        for job in await cluster.list_jobs(namespace)
        if job.owner in owners
    ]


def _is_finished(view: RunView) -> bool:
    return view.status.completion_time is not None


async def _run(platform: Platform, deployment: str) -> None:
    cluster = await Cluster.connect(platform.kubeconfig, platform.timings.request_seconds)
    try:
        await uninstall(cluster, platform, deployment)
    finally:
        await cluster.close()


def main() -> None:
    """Do it; what could not be done is said in one line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        platform = read_platform(os.environ)
        asyncio.run(_run(platform, os.environ[DEPLOYMENT]))
    except (SettingsError, ApiError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
