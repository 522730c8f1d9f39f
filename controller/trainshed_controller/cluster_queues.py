"""Who holds what of each shared RayCluster, and who may begin: from records, not from memory.

What is granted and not yet in a status is all that a restart loses, and then it is granted again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trainshed_controller.admission import QueueEntry, admit, entry_of
from trainshed_controller.decide import wants_room
from trainshed_controller.model import Key, Place
from trainshed_controller.ray_queries import Question
from trainshed_controller.release import UNKNOWN_SECONDS, holding_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainshed_api.status import Reservation
    from trainshed_controller.cache import Cache
    from trainshed_controller.clock import Clock
    from trainshed_controller.deleted import DeletedJob
    from trainshed_controller.model import RayJobView, RunView
    from trainshed_controller.ray_queries import RaysWord

Broken = tuple["RunView", Exception]
_AGAIN_SECONDS = 10.0
# For how long after its grace a driver counts of which Ray says that it runs, and nobody else.
_LONGEST_SECONDS = 3600.0


@dataclass(eq=False)
class ClusterQueues:
    """The queues of all shared RayClusters.

    places: what the queues said, by uid; a grant is kept until the run's status has it.

    Args:
        ask: asks Ray about a driver whose run is gone; None while there is no answer.
        forget_question: drops the questions about a RayJob, by uid.
    """

    cache: Cache
    ask: Callable[[Question], RaysWord | None]
    forget_question: Callable[[str], None]
    clock: Clock
    places: dict[str, Place] = field(default_factory=dict)
    # Since when runs wait for Pods that are declared and not ready, by queue and uid.
    _lacking: dict[Key, dict[str, float]] = field(default_factory=dict)

    def admit(self, key: Key, enqueue: Callable[[Key], None]) -> tuple[float | None, list[Broken]]:
        """Enqueue the runs of which the queue says something new.

        Returns: when to look again, and the runs of which nobody can say what they ask for.
        """
        cluster = self.cache.clusters.get(key.namespace, key.name)
        if cluster is None:
            return None, []
        clock = self.clock.monotonic()
        views = self.cache.runs.members(key.namespace, key.name)
        # Of 10,000 RayJobs few are alive: they are looked for once.
        alive = [
            job
            for job in self.cache.jobs.all()
            if job.namespace == key.namespace and job.selector == key.name and not job.is_over
        ]
        orphans = self._orphans(key, alive)
        holding, waiting, broken = self._entries(views)
        holding += [QueueEntry(job.uid, job.run, held, held.since) for job, held in orphans]
        pods = self.cache.pods.members(key.namespace, key.name)
        since = self._lacking.get(key, {})
        lacking = {uid: clock - began for uid, began in since.items()}
        ours = {view.uid for view in views}
        # RayJobs that are not ours to count.
        others = [job.name for job in alive if job.owner not in ours and job.reservation is None]
        said = admit(cluster, pods, holding, waiting, others, lacking)
        lacks = {uid: since.get(uid, clock) for uid, place in said.items() if place.lacks_pods}
        self._lacking[key] = lacks
        for view in views:
            place = said.get(view.uid)
            if place is not None and place != self.places.get(view.uid):
                self.places[view.uid] = place
                enqueue(Key("run", view.namespace, view.name))
        return _AGAIN_SECONDS if lacks or orphans else None, broken

    def _entries(
        self, views: Sequence[RunView]
    ) -> tuple[list[QueueEntry], list[QueueEntry], list[Broken]]:
        """Return what runs hold, what others wait for, and the runs that nobody can count."""
        now = self.clock.now()
        holding: list[QueueEntry] = []
        waiting: list[QueueEntry] = []
        broken: list[Broken] = []
        for view in views:
            try:
                entry = entry_of(view)
            except Exception as error:  # what one run asks for is no matter of the others
                broken.append((view, error))
                continue
            place = self.places.get(view.uid)
            if entry is None:
                continue
            if holding_attempt(view.status):
                holding.append(entry)
            elif not wants_room(view, now):
                self.places.pop(view.uid, None)
            elif place and place.admitted:
                holding.append(replace(entry, since=now))
            else:
                waiting.append(entry)
        return holding, waiting, broken

    def _orphans(
        self, key: Key, alive: Sequence[RayJobView]
    ) -> list[tuple[RayJobView, Reservation]]:
        """Return the RayJobs whose drivers may run and whose runs are gone, and what they hold."""
        gone = self.cache.deleted_jobs.of(key.namespace, key.name)
        orphans = (
            *(job for job in alive if not self._is_known(job)),
            *(each.job for each in gone if not self._is_known(each.job) and self._holds(key, each)),
        )
        return [(job, job.reservation) for job in orphans if job.reservation]

    def _is_known(self, job: RayJobView) -> bool:
        """Return whether the status of a run has what the RayJob holds."""
        owner = self.cache.runs.get(job.namespace, job.run)
        if owner is None or owner.uid != job.owner or owner.unreadable:
            return False
        # What another replica began may be here before the status that has it.
        return any(attempt.ray_job == job.name for attempt in owner.status.attempts)

    def _holds(self, key: Key, gone: DeletedJob) -> bool:
        """Return whether the driver of a RayJob that went still counts; it is told to stop.

        KubeRay asked Ray to stop it, and waited for nothing.
        """
        job, deleted = gone.job, self.cache.deleted_jobs
        grace = job.reservation.grace_seconds if job.reservation else 0
        word = self.ask(Question("stop", key, job.uid, 0, key.name, job.job_id))
        over = word.over if word else None
        is_replaced = gone.head not in ("", self.cache.head_of(key.namespace, key.name))
        seconds = deleted.seconds_since(gone)
        if over or is_replaced or seconds >= grace + _LONGEST_SECONDS:
            deleted.drop(gone)
            self.forget_question(job.uid)
            return False
        return over is False or seconds < grace + UNKNOWN_SECONDS
