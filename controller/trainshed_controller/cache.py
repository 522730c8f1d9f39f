"""What the watches have told so far. It may be late, and it may miss a deletion."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from trainshed_controller.model import ClusterView, Key, PodView, RayJobView, RunView

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_controller.model import Settings


class _View(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


V = TypeVar("V", bound=_View)
T = TypeVar("T")
Place = tuple[str, str]


@dataclass(frozen=True)
class Listing(Generic[T]):
    """What a LIST held, and as of when."""

    views: list[T]
    resource_version: str


class Shelf(Generic[V]):
    """The objects of one kind, by name and by what they belong to."""

    def __init__(self, belongs_to: Callable[[V], str]) -> None:
        self._belongs_to = belongs_to
        self._items: dict[Place, V] = {}
        self._members: defaultdict[Place, dict[str, V]] = defaultdict(dict)
        # Uids of what went, each kept over two LISTs: a LIST and the answer to a write may be older
        # than the word of a deletion, and what they hold must not come back. A write is answered,
        # or given up, sooner than two LISTs come round.
        self._gone: set[str] = set()
        self._gone_before: set[str] = set()

    def put(self, view: V) -> bool:
        """Keep the object unless it went or is known as newer; say whether it was kept."""
        if view.uid in self._gone or view.uid in self._gone_before:
            return False
        if self.knows(view.namespace, view.name, view.uid, view.resource_version):
            return False
        known = self._items.get((view.namespace, view.name))
        if known:
            self._remove(known)
        self._items[view.namespace, view.name] = view
        self._members[view.namespace, self._belongs_to(view)][view.name] = view
        return True

    def knows(self, namespace: str, name: str, uid: str, resource_version: str) -> bool:
        """Say whether this state of the object, or a newer one, is kept already."""
        known = self._items.get((namespace, name))
        return bool(known and known.uid == uid and _age(known) >= _number(resource_version))

    def drop(self, view: V) -> None:
        """Forget the object, which is gone, unless another one has its name by now."""
        self._gone.add(view.uid)
        known = self._items.get((view.namespace, view.name))
        if known is None or known.uid != view.uid:
            return
        self._remove(known)

    def _remove(self, known: V) -> None:
        del self._items[known.namespace, known.name]
        place = (known.namespace, self._belongs_to(known))
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

    def take_over(self, namespace: str, listing: Listing[V]) -> int:
        """Take over a whole LIST of a namespace; return how much of it the watch had not told."""
        there = {view.uid for view in listing.views}
        gone = [
            view
            for view in self._items.values()
            # What was made after the LIST cannot be in it.
            if view.namespace == namespace
            and view.uid not in there
            and _age(view) <= _number(listing.resource_version)
        ]
        for view in gone:
            self.drop(view)
        num_new = sum(self.put(view) for view in listing.views)
        self._gone_before, self._gone = self._gone, set()
        return len(gone) + num_new


class Cache:
    """All kinds that are watched."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.runs: Shelf[RunView] = Shelf(lambda run: cluster_of(run, settings))
        self.jobs: Shelf[RayJobView] = Shelf(lambda job: job.owner)
        self.clusters: Shelf[ClusterView] = Shelf(lambda _: "")
        self.pods: Shelf[PodView] = Shelf(lambda pod: pod.cluster)

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
    """Return the shared cluster that a run is meant for; empty for one of its own."""
    if view.run is None:
        return ""
    cluster = view.run.spec.cluster
    if cluster is None:
        return settings.default_cluster
    return cluster.shared or ""


def _age(view: _View) -> int:
    return _number(view.resource_version)


def _number(resource_version: str) -> int:
    # Resource versions of one kind compare as integers.
    return int(resource_version) if resource_version.isdigit() else 0
