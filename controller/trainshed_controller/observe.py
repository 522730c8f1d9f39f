"""Gathers what a decision about a run rests on: the cache, and where that may err, an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainshed_api.snapshot import final_snapshot
from trainshed_controller.begin import must_ask_ray
from trainshed_controller.model import Observed
from trainshed_controller.render import shared_cluster

if TYPE_CHECKING:
    from trainshed_api.snapshot import Snapshot
    from trainshed_api.status import AttemptStatus
    from trainshed_controller.cache import Cache
    from trainshed_controller.cluster import Cluster
    from trainshed_controller.jobs import JobsApi
    from trainshed_controller.model import (
        ClusterView,
        Place,
        PodView,
        RayJobView,
        RunView,
        Settings,
    )


class Observer:
    """Sees one run at a time."""

    def __init__(self, cache: Cache, cluster: Cluster, jobs: JobsApi, settings: Settings) -> None:
        self._cache = cache
        self._cluster = cluster
        self._jobs = jobs
        self._settings = settings
        # The last word of each attempt of a run that has not ended, by uid of the run.
        self.snapshots: dict[str, Snapshot] = {}

    async def see(self, view: RunView, place: Place | None) -> Observed:
        """Return all that is known of the run."""
        newest = view.status.attempts[-1] if view.status.attempts else None
        job = await self._job_of(view, newest) if newest else None
        mine = self._cache.jobs.members(view.namespace, view.uid)
        cluster = self._cluster_of(view, newest, job)
        name = cluster.name if cluster else newest.ray_cluster if newest else ""
        pods = tuple(self._cache.pods.members(view.namespace, name)) if name else ()
        head = await self._head_of(view, newest, pods)
        number = view.status.attempt + 1
        taken = self._cache.jobs.get(view.namespace, f"{view.name}-{number}")
        seen = Observed(
            ray_job=job,
            strays=tuple(m for m in mine if newest is None or m.name != newest.ray_job),
            cluster=cluster,
            head=head,
            pods=pods,
            snapshot=await self._last_word(view, newest, job),
            place=place,
            next_taken=taken if taken and taken.owner != view.uid else None,
        )
        return await self._with_rays_word(view, seen, newest)

    async def _job_of(self, view: RunView, newest: AttemptStatus) -> RayJobView | None:
        known = self._cache.jobs.get(view.namespace, newest.ray_job)
        # A deletion may have been missed, and so may a creation; one that was never started is
        # found by the attempt to create it.
        started = newest.start_time is not None and newest.end_time is None
        if known.deleting if known else started:
            found = await self._cluster.get_job(view.namespace, newest.ray_job)
            if found:
                self._cache.jobs.put(found)
            elif known:
                self._cache.jobs.drop(known)
            known = found
        return known if known and known.owner == view.uid else None

    def _cluster_of(
        self, view: RunView, newest: AttemptStatus | None, job: RayJobView | None
    ) -> ClusterView | None:
        name = shared_cluster(view.run, self._settings) if view.run else ""
        if newest and newest.end_time is None:
            name = (job.cluster if job else "") or newest.ray_cluster or name
        elif not name and newest:
            name = newest.ray_cluster
        return self._cache.clusters.get(view.namespace, name) if name else None

    async def _head_of(
        self, view: RunView, newest: AttemptStatus | None, pods: tuple[PodView, ...]
    ) -> PodView | None:
        """Return the head that has the job, else the one that runs now."""
        heads = [pod for pod in pods if pod.is_head]
        known = newest.head_identity if newest else ""
        same = next((pod for pod in heads if known and pod.identity == known), None)
        if known and same is None and newest and newest.end_time is None:
            # Before a job is given up the API server is asked itself.
            selector = f"ray.io/cluster={newest.ray_cluster},ray.io/node-type=head"
            heads = await self._cluster.list_pods(view.namespace, selector)
            for pod in heads:
                self._cache.pods.put(pod)
            same = next((pod for pod in heads if pod.identity == known), None)
        return same or next((pod for pod in heads if pod.identity and not pod.deleting), None)

    async def _last_word(
        self, view: RunView, newest: AttemptStatus | None, job: RayJobView | None
    ) -> Snapshot | None:
        """Return what the driver said last; if it could not say its end, what it printed."""
        said = self.snapshots.get(view.uid)
        if newest is None or newest.outcome is not None:
            return None
        if said and said.attempt != newest.number:
            said = None
        heard_all = said is not None and said.state == "Ended"
        if heard_all or job is None or not job.job_status or not job.is_over:
            return said
        cluster = job.cluster or newest.ray_cluster
        log = await self._jobs.read_log(view.namespace, cluster, newest.job_id)
        printed = final_snapshot(log)
        if printed and printed.attempt == newest.number:
            self.snapshots[view.uid] = printed
            return printed
        return said

    async def _with_rays_word(
        self, view: RunView, seen: Observed, newest: AttemptStatus | None
    ) -> Observed:
        if newest is None or not must_ask_ray(view, seen):
            return seen
        over = await self._jobs.is_over(view.namespace, newest.ray_cluster, newest.job_id)
        return replace(seen, over=over)
