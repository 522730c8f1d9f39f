"""What the watches have told so far. It may be late, and it may miss a deletion."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from trainshed_controller.deleted import DeletedJobs, DeletedPods
from trainshed_controller.model import (
    ClusterView,
    Key,
    KubeObject,
    PodView,
    RayJobView,
    RunView,
    running_head,
)
from trainshed_controller.release import holding_attempt
from trainshed_controller.render import shared_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainshed_controller.model import Settings


V = TypeVar("V", bound=KubeObject)
Place = tuple[str, str]

# Longer than any write waits for its answer.
_GONE_SECONDS = 120.0


@dataclass(eq=False)
class Shelf(Generic[V]):
    """The objects of one kind, by name and by what they belong to.

    Args:
        clock: seconds that only go on.
    """

    belongs_to: Callable[[V], str]
    clock: Callable[[], float] = time.monotonic
    _items: dict[Place, V] = field(default_factory=dict)
    _members: dict[Place, dict[str, V]] = field(default_factory=lambda: defaultdict(dict))
    # Uids of deleted objects and when they went: the answer to a write may be older than the
    # event of a deletion, and must not bring the object back.
    _gone: dict[str, float] = field(default_factory=dict)
    # What changed since a LIST began; the LIST may be older. None while none is under way.
    _changed: set[Place] | None = None

    def begin_list(self) -> None:
        """Note from now on what changes while a LIST is under way."""
        self._changed = set()

    def end_list(self, namespace: str, uids: Mapping[str, str]) -> list[V]:
        """Return the objects that are missing in the LIST, which has these uids by name."""
        changed, self._changed = self._changed or set(), None
        return [
            view
            for place, view in self._items.items()
            if place not in changed
            and view.namespace == namespace
            and uids.get(view.name) != view.uid
        ]

    def put(self, view: V, *, is_listed: bool = False) -> bool:
        """Keep the object unless it went or is known as newer; say whether it was kept."""
        place = (view.namespace, view.name)
        if self.knows(*place, view.uid, view.resource_version, is_listed=is_listed):
            return False
        known = self._items.get(place)
        if known:
            self._remove(known)
        self._gone.pop(view.uid, None)
        if not is_listed:
            self._note(place)
        self._items[view.namespace, view.name] = view
        self._members[view.namespace, self.belongs_to(view)][view.name] = view
        return True

    def knows(
        self, namespace: str, name: str, uid: str, version: str, *, is_listed: bool = False
    ) -> bool:
        """Say whether this state of the object, or a newer one, is known already.

        A LIST reads the newest state, so it wins over everything from before it began: after a
        restore of the API server's data versions are smaller.
        """
        place = (namespace, name)
        known = self._items.get(place)
        if is_listed and place not in (self._changed or ()):
            return bool(known and (known.uid, known.resource_version) == (uid, version))
        if uid in self._gone:
            return True
        return bool(
            known and known.uid == uid and _number(known.resource_version) >= _number(version)
        )

    def drop(self, view: V) -> None:
        """Forget the object, which is gone, unless another one has its name by now."""
        self.remove(view.namespace, view.name, view.uid)

    def remove(self, namespace: str, name: str, uid: str) -> V | None:
        """Forget who is gone; return what was known of it."""
        now = self.clock()
        while self._gone and next(iter(self._gone.values())) < now - _GONE_SECONDS:
            del self._gone[next(iter(self._gone))]
        self._gone[uid] = now
        self._note((namespace, name))
        known = self._items.get((namespace, name))
        if known is None or known.uid != uid:
            return None
        self._remove(known)
        return known

    def _remove(self, known: V) -> None:
        del self._items[known.namespace, known.name]
        place = (known.namespace, self.belongs_to(known))
        self._members[place].pop(known.name, None)
        if not self._members[place]:
            del self._members[place]

    def get(self, namespace: str, name: str) -> V | None:
        """Return the object of that name."""
        return self._items.get((namespace, name))

    def members(self, namespace: str, whole: str) -> list[V]:
        """Return what belongs to something, such as the Pods of a cluster."""
        return list(self._members.get((namespace, whole), {}).values())

    def all(self) -> list[V]:
        """Return all of them."""
        return list(self._items.values())

    def _note(self, place: Place) -> None:
        if self._changed is not None:
            self._changed.add(place)


class Cache:
    """All kinds that are watched.

    Args:
        clock: seconds that only go on.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self.runs: Shelf[RunView] = Shelf(lambda run: cluster_of(run, settings), clock)
        self.jobs: Shelf[RayJobView] = Shelf(lambda job: job.owner, clock)
        self.clusters: Shelf[ClusterView] = Shelf(lambda _: "", clock)
        self.pods: Shelf[PodView] = Shelf(lambda pod: pod.cluster, clock)
        self.deleted_pods = DeletedPods(clock)
        self.deleted_jobs = DeletedJobs(clock)

    def concerned(self, view: RunView | RayJobView | ClusterView | PodView) -> set[Key]:
        """Return what has to be looked at when this object changed."""
        match view:
            case RunView():
                keys = {Key("run", view.namespace, view.name)}
                if cluster := cluster_of(view, self._settings):
                    keys.add(Key("cluster", view.namespace, cluster))
                return keys
            case RayJobView():
                name = view.run or view.name.rpartition("-")[0]
                return {Key("run", view.namespace, name)} if name else set()
            case ClusterView():
                return self._users(view.namespace, view.name)
            case PodView():
                return self._users(view.namespace, view.cluster)

    def gone(self, namespace: str, cluster: str) -> tuple[PodView, ...]:
        """Return the Pods of a cluster in which nothing runs any more, those that went last."""
        over = (pod for pod in self.pods.members(namespace, cluster) if pod.is_over)
        return (*self.deleted_pods.of(namespace, cluster), *over)

    def head_of(self, namespace: str, cluster: str) -> str:
        """Return the identity of the head of a cluster; empty while none runs."""
        head = running_head(self.pods.members(namespace, cluster))
        return head.identity if head else ""

    def record_deleted_job(self, job: RayJobView) -> None:
        """Take in that Kubernetes has a RayJob no more: its driver may run on today's head."""
        self.deleted_jobs.record(job, self.head_of(job.namespace, job.selector))

    def _users(self, namespace: str, cluster: str) -> set[Key]:
        """Return the queue of a cluster, and the runs that have an attempt on it."""
        keys = {Key("cluster", namespace, cluster)}
        for run in self.runs.members(namespace, cluster):
            if run.status.attempts and run.status.completion_time is None:
                keys.add(Key("run", namespace, run.name))
        # A cluster of a run's own is named by KubeRay: <rayjob>-<five characters>.
        job = self.jobs.get(namespace, cluster.rpartition("-")[0])
        if job and job.run:
            keys.add(Key("run", namespace, job.run))
        return keys


def cluster_of(view: RunView, settings: Settings) -> str:
    """Return the shared cluster of which a run holds capacity, or for which it waits."""
    if holder := holding_attempt(view.status):
        return holder.ray_cluster
    if view.run is None or view.status.completion_time is not None:
        return ""
    return shared_cluster(view.run, settings)


def _number(resource_version: str) -> int:
    # Resource versions of one kind compare as integers.
    return int(resource_version) if resource_version.isdecimal() else 0
