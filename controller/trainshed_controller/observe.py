"""Gathers what a decision about a run rests on: the cache, and where that may err, an answer.

Only the API server is waited for. What a Ray head is asked, the prober asks beside the work.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trainshed_controller.model import EarlierDriver, Observed, running_head
from trainshed_controller.ray_queries import question_of
from trainshed_controller.release import cluster_of_attempt
from trainshed_controller.render import shared_cluster
from trainshed_controller.snapshots import SnapshotStore
from trainshed_controller.status import open_attempt

if TYPE_CHECKING:
    from trainshed_api.status import AttemptStatus
    from trainshed_controller.cache import Cache
    from trainshed_controller.cluster import Cluster
    from trainshed_controller.model import (
        ClusterView,
        Place,
        PodView,
        RayJobView,
        RunView,
        Settings,
    )
    from trainshed_controller.prober import Prober


@dataclass(eq=False)
class Observer:
    """Sees one run at a time.

    snapshots: what drivers say, for whoever hears them.
    """

    cache: Cache
    cluster: Cluster
    prober: Prober
    settings: Settings
    snapshots: SnapshotStore = field(default_factory=SnapshotStore)

    async def see(self, view: RunView, place: Place | None) -> Observed:
        """Return all that is known of the run."""
        newest = view.status.attempts[-1] if view.status.attempts else None
        job = await self._job_of(view, newest) if newest else None
        mine = self.cache.jobs.members(view.namespace, view.uid)
        cluster = self._cluster_of(view, newest, job)
        name = cluster.name if cluster else newest.ray_cluster if newest else ""
        pods = tuple(self.cache.pods.members(view.namespace, name)) if name else ()
        head = await self._head_of(view, newest, job, pods)
        number = view.status.attempt + 1
        taken = self.cache.jobs.get(view.namespace, f"{view.name}-{number}")
        seen = Observed(
            ray_job=job,
            strays=tuple(m for m in mine if newest is None or m.name != newest.ray_job),
            cluster=cluster,
            head=head,
            pods=pods,
            gone=self.cache.gone(view.namespace, name) if name else (),
            place=place,
            next_taken=taken if taken and taken.owner != view.uid else None,
        )
        return self._with_rays_word(view, self._with_drivers_word(view, seen))

    def forget(self, uid: str) -> None:
        """Drop the snapshots and questions of a deleted run."""
        self.snapshots.forget(uid)
        self.prober.forget(uid)

    async def _job_of(self, view: RunView, newest: AttemptStatus) -> RayJobView | None:
        known = self.cache.jobs.get(view.namespace, newest.ray_job)
        # A deletion may have been missed, and so may a creation; one that was never started is
        # found by the attempt to create it.
        started = newest.start_time is not None and newest.end_time is None
        if known.deleting if known else started:
            found = await self.cluster.get_job(view.namespace, newest.ray_job)
            if found:
                self.cache.jobs.put(found)
            elif known:
                self.cache.jobs.drop(known)
            known = found
        return known if known and known.owner == view.uid else None

    def _cluster_of(
        self, view: RunView, newest: AttemptStatus | None, job: RayJobView | None
    ) -> ClusterView | None:
        name = shared_cluster(view.run, self.settings) if view.run else ""
        if newest and newest.release_time is None:
            name = cluster_of_attempt(job, newest) or name
        elif not name and newest:
            name = newest.ray_cluster
        return self.cache.clusters.get(view.namespace, name) if name else None

    async def _head_of(
        self,
        view: RunView,
        newest: AttemptStatus | None,
        job: RayJobView | None,
        pods: tuple[PodView, ...],
    ) -> PodView | None:
        """Return the head that has the job, else the one that runs now."""
        heads = [pod for pod in pods if pod.is_head]
        known = newest.head_identity if newest else ""
        same = next((pod for pod in heads if known and pod.identity == known), None)
        cluster = cluster_of_attempt(job, newest) if newest and newest.end_time is None else ""
        if newest and cluster and same is None and (known or self._is_with_ray(view, newest, job)):
            # The watch of Pods may be late. The API server is asked itself before a job is given
            # up, and which head it is that has the job: another one's end would be taken for its.
            selector = f"ray.io/cluster={cluster},ray.io/node-type=head"
            heads = await self.cluster.list_pods(view.namespace, selector)
            for pod in heads:
                self.cache.pods.put(pod)
            same = next((pod for pod in heads if known and pod.identity == known), None)
        return same or running_head(heads)

    def _is_with_ray(self, view: RunView, newest: AttemptStatus, job: RayJobView | None) -> bool:
        """Say whether a head has the attempt's job: KubeRay says Running before it gives it one."""
        heard = self.snapshots.get(view.uid, newest.number) is not None
        return heard or (job is not None and bool(job.job_status))

    def _with_drivers_word(self, view: RunView, seen: Observed) -> Observed:
        attempt = open_attempt(view.status)
        if attempt is None:
            # What its driver said is written down, as far as anybody reads it.
            self.snapshots.forget(view.uid)
            return seen
        heard = self.snapshots.heard(view.uid, attempt.number)
        return replace(seen, heard=heard, snapshot=self.snapshots.get(view.uid, attempt.number))

    def _with_rays_word(self, view: RunView, seen: Observed) -> Observed:
        """Add what a head said; a driver that could not say its end may have printed it."""
        question = question_of(view, seen, self.settings)
        if question is None:
            self.prober.forget(view.uid)
            return seen
        word = self.prober.ask(question)
        newest = view.status.attempts[-1]
        if question.attempt != newest.number or newest.release_time is not None:
            over = word.over if word else None
            return replace(seen, earlier=EarlierDriver(question.attempt, over, asking=word is None))
        if word is None:
            return replace(seen, asking=True)
        printed = word.last_word
        if printed is None or printed.attempt != question.attempt:
            return replace(seen, over=word.over)
        return replace(seen, snapshot=printed)
