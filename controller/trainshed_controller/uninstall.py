"""`python -m trainshed_controller.uninstall`: leave nothing running behind, and nothing that would.

Runs while the controller and KubeRay still live: live runs stop after a checkpoint and stay
suspended, so that a later installation starts nothing by itself. Then the controller goes, and the
RayJobs while KubeRay can still take its finalizer off them.
A RayCluster with state in Redis goes then, too: the hook fails while it is left, so that KubeRay's
operator stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from trainshed_api.names import SECONDS_AFTER_GRACE
from trainshed_controller.clock import Clock
from trainshed_controller.cluster import Cluster
from trainshed_controller.depth import allow_deep_objects
from trainshed_controller.errors import ApiError, GoneError, RefusedError
from trainshed_controller.settings import SettingsError, read_platform
from trainshed_controller.status import open_attempt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from trainshed_controller.model import RayJobView, RunView
    from trainshed_controller.settings import Platform

log = logging.getLogger("trainshed.uninstall")

DEPLOYMENT = "TRAINSHED_CONTROLLER_DEPLOYMENT"
# The RayCluster that has state in Redis; not set for any other.
REDIS_CLUSTER = "TRAINSHED_CONTROLLER_REDIS_CLUSTER"
# What a stop takes beyond the grace of the run, and what its RayJob takes to go.
_STOP_SECONDS, _JOBS_SECONDS = SECONDS_AFTER_GRACE + 30.0, 45.0
# What KubeRay takes to end the Pods of a RayCluster and to remove its state from Redis.
_REDIS_SECONDS = 90.0
# Helm waits longer than the hook may take, for its Pod has to start.
_HELM_SECONDS = 60
_MOST_TRIES, _MOST_AT_ONCE = 5, 10

T = TypeVar("T")
Thing = TypeVar("Thing")


class TimeError(Exception):
    """The hook has less time than what it removes may need."""


@dataclass
class Removal:
    """What has to go before the release does.

    look_seconds: between two looks at what is left. redis_cluster: name of the RayCluster that has
    state in Redis; empty where there is none.
    """

    cluster: Cluster
    platform: Platform
    deployment: str
    clock: Clock = field(default_factory=Clock)
    look_seconds: float = 1.0
    redis_cluster: str = ""
    _suspended: set[str] = field(default_factory=set)
    _refused: dict[str, list[str]] = field(default_factory=dict)

    async def run(self) -> None:
        """Stop all runs and the controller, and delete the RayJobs of runs.

        What one run refuses keeps nobody else up: it is told. Raises TimeError before anything is
        stopped or where the RayCluster is left, ApiError where the API server does not answer for
        as long as there is time.
        """
        end = self.clock.monotonic() + self.platform.uninstall_seconds
        runs_end = end - self._seconds_after_runs
        self._refuse_impatience(await self._insist(self._runs, end))
        late = "not all runs stopped in time; their RayJobs are deleted"
        await self._repeat(lambda: self._suspend_runs(runs_end), runs_end, late)
        await self._insist(self._stop_controller, end)
        late = "RayJobs are left: does KubeRay's operator run?"
        await self._repeat(lambda: self._delete_jobs(end), end, late)
        if self.redis_cluster:
            late = f"RayCluster {self.redis_cluster} is left"
            if not await self._repeat(self._delete_redis_cluster, end, late):
                raise TimeError(
                    f"{late}: KubeRay did not remove its state from Redis in time. See whether "
                    "KubeRay's operator runs and Redis answers, then repeat helm uninstall; or "
                    f"give up the state: {self._release_command}"
                )
        for name, errors in self._refused.items():
            log.warning(
                "%s could not be suspended, a later installation starts it: %s", name, errors[-1]
            )

    @property
    def _seconds_after_runs(self) -> float:
        return _JOBS_SECONDS + (_REDIS_SECONDS if self.redis_cluster else 0.0)

    @property
    def _release_command(self) -> str:
        return (
            f"kubectl -n {self.platform.namespace} patch raycluster {self.redis_cluster} "
            """--type merge --patch '{"metadata":{"finalizers":null}}'"""
        )

    def _refuse_impatience(self, runs: list[RunView]) -> None:
        have = self.platform.uninstall_seconds
        beyond = _STOP_SECONDS + self._seconds_after_runs
        graces = (
            (view.run.spec.grace_period_seconds, view.path)
            for view in runs
            if view.run and open_attempt(view.status)
        )
        patient = [each for each in graces if each[0] > have - beyond]
        for grace, name in patient:
            log.error("%s: gracePeriodSeconds is %d", name, grace)
        if patient:
            grace, name = max(patient, key=lambda each: each[0])
            need = grace + beyond
            others = f" (and {len(patient) - 1} more, named above)" if len(patient) > 1 else ""
            raise TimeError(
                f"stopping {name}{others} may take {need:.0f} seconds and this hook has "
                f"{have:.0f}; nothing was stopped. Lower its gracePeriodSeconds, suspend or delete "
                "it first and wait until it has stopped, or give more time: helm upgrade with "
                f"controller.uninstallSeconds={need:.0f}, then helm uninstall with "
                f"--timeout={need + _HELM_SECONDS:.0f}s"
            )

    async def _repeat(self, act: Callable[[], Awaitable[bool]], end: float, late: str) -> bool:
        """Do it until nothing is left, and return True; log `late` where there is no time."""
        while await self._insist(act, end):
            if self.clock.monotonic() >= end:
                log.warning(late)
                return False
            await asyncio.sleep(self.look_seconds)
        return True

    async def _suspend_runs(self, end: float) -> bool:
        """Suspend what is not, first what runs; return whether to look again."""
        runs = await self._runs()
        there = {view.path for view in runs}
        self._refused = {name: errors for name, errors in self._refused.items() if name in there}
        stopping = any(v.uid in self._suspended and open_attempt(v.status) for v in runs)
        others = [view for view in runs if view.uid not in self._suspended]
        others.sort(key=lambda view: open_attempt(view.status) is None)
        again = await _each(others, lambda view: self._suspend(view, end))
        return stopping or any(again)

    async def _suspend(self, view: RunView, end: float) -> bool:
        """Return whether to look at the run again."""
        name = view.path
        if self.clock.monotonic() >= end:
            self._refused.setdefault(name, ["there was no time left"])
            return True
        try:
            await self.cluster.suspend_run(view)
        except GoneError:
            return False
        except ApiError as error:
            errors = self._refused.setdefault(name, [])
            errors.append(str(error))
            return len(errors) < _MOST_TRIES
        log.info("suspend %s", name)
        self._refused.pop(name, None)
        self._suspended.add(view.uid)
        return True

    async def _stop_controller(self) -> None:
        with contextlib.suppress(GoneError):
            await self.cluster.scale_to_zero(self.platform.namespace, self.deployment)

    async def _delete_redis_cluster(self) -> bool:
        try:
            return await self.cluster.delete_cluster(self.platform.namespace, self.redis_cluster)
        except RefusedError as error:  # roles that the platform applied for an older release
            log.warning(
                "RayCluster %s was not deleted, its state stays in Redis: %s. If KubeRay's "
                "finalizer keeps it: %s",
                self.redis_cluster,
                error,
                self._release_command,
            )
            return False

    async def _delete_jobs(self, end: float) -> bool:
        """Return whether there are RayJobs that belong to runs; others are nobody's business.

        Raises an ApiError after all were tried.
        """
        owners = {view.uid for view in await self._all_runs()}
        listed = await self._listed(self.cluster.list_jobs)
        jobs: list[RayJobView] = [job for job in listed if job.owner in owners]
        staying = [job for job in jobs if not job.deleting]
        for error in await _each(staying, lambda job: self._delete_job(job, end)):
            if error:
                raise error
        return bool(jobs)

    async def _delete_job(self, job: RayJobView, end: float) -> ApiError | None:
        """Return why it could not be."""
        if self.clock.monotonic() < end:
            log.info("delete RayJob %s/%s", job.namespace, job.name)
            try:
                await self.cluster.delete_job(job)
            except ApiError as error:
                return error
        return None

    async def _insist(self, act: Callable[[], Awaitable[T]], end: float) -> T:
        """Return what comes of it; until then it is tried again, for networks take time to open."""
        while True:
            try:
                return await act()
            except ApiError as error:
                if self.clock.monotonic() >= end:
                    raise
                log.info("once more: %s", error)
                await asyncio.sleep(self.look_seconds)

    async def _runs(self) -> list[RunView]:
        """Return the runs that are not finished."""
        return [view for view in await self._all_runs() if view.status.completion_time is None]

    async def _all_runs(self) -> list[RunView]:
        return await self._listed(self.cluster.list_runs)

    async def _listed(self, fetch: Callable[[str], Awaitable[list[T]]]) -> list[T]:
        """Return what there is; a kind that is gone has nothing."""
        try:
            return await fetch(self.platform.namespace)
        except GoneError:
            return []


async def _each(things: Iterable[Thing], act: Callable[[Thing], Awaitable[T]]) -> list[T]:
    """Return what comes of each; some at a time, for one may wait long for its answer."""
    slots = asyncio.Semaphore(_MOST_AT_ONCE)

    async def do(thing: Thing) -> T:
        async with slots:
            return await act(thing)

    return await asyncio.gather(*map(do, things))


async def _run(platform: Platform, deployment: str, redis_cluster: str) -> None:
    cluster = await Cluster.connect(platform.kubeconfig, platform.timings)
    try:
        await Removal(cluster, platform, deployment, redis_cluster=redis_cluster).run()
    finally:
        await cluster.close()


def main() -> None:
    """Do it; what could not be done is said in one line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    allow_deep_objects()
    try:
        platform = read_platform(os.environ)
        redis_cluster = os.environ.get(REDIS_CLUSTER, "")
        asyncio.run(_run(platform, os.environ[DEPLOYMENT], redis_cluster))
    except (SettingsError, TimeError, ApiError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
