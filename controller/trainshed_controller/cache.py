"""What the watches have told so far. It may be late, and it may miss a deletion."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from trainshed_controller.departed import Departed
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
Place = tuple[str, str]


@dataclass(frozen=True)
class Names:
    """Who was in a LIST, uids and resourceVersions by name, and as of when."""

    uids: dict[str, str]
    resource_version: str
    versions: dict[str, str] = field(default_factory=dict)


class Shelf(Generic[V]):
    """The objects of one kind, by name and by what they belong to."""

    def __init__(self, belongs_to: Callable[[V], str]) -> None:
        self._belongs_to = belongs_to
        self._items: dict[Place, V] = {}
        self._members: defaultdict[Place, dict[str, V]] = defaultdict(dict)
        # Uids of what went, each kept over two LISTs: the answer to a write may be older than the
        # word of a deletion, and what it holds must not come back. A write is answered, or given
        # up, sooner than two LISTs come round.
        self._gone: set[str] = set()
        self._gone_before: set[str] = set()
        # What nobody could read, by name: it is known, and left alone.
        self._unreadable: dict[Place, str] = {}

    def put(self, view: V) -> bool:
        """Keep the object unless it went or is known as newer; say whether it was kept."""
        if view.uid in self._gone or view.uid in self._gone_before:
            return False
        if self.knows(view.namespace, view.name, view.uid, view.resource_version):
            return False
        known = self._items.get((view.namespace, view.name))
        if known:
            self._remove(known)
        self._unreadable.pop((view.namespace, view.name), None)
        self._items[view.namespace, view.name] = view
        self._members[view.namespace, self._belongs_to(view)][view.name] = view
        return True

    def knows(self, namespace: str, name: str, uid: str, resource_version: str) -> bool:
        """Say whether this state of the object, or a newer one, is kept already."""
        known = self._items.get((namespace, name))
        return bool(known and known.uid == uid and _age(known) >= _number(resource_version))

    def drop(self, view: V) -> None:
        """Forget the object, which is gone, unless another one has its name by now."""
        self.remove(view.namespace, view.name, view.uid)

    def remove(self, namespace: str, name: str, uid: str) -> V | None:
        """Forget who is gone; return what was known of it."""
        self._gone.add(uid)
        known = self._items.get((namespace, name))
        if known is None or known.uid != uid:
            return None
        self._remove(known)
        return known

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

    def skip(self, namespace: str, name: str, uid: str) -> None:
        """Know of an object that cannot be read; what was known of it before stays."""
        self._unreadable[namespace, name] = uid

    def not_in(self, namespace: str, names: Names) -> list[V]:
        """Return cached objects that are missing in a LIST: its deletion was missed, or the
        LIST is old."""
        return [
            view
            for view in self._items.values()
            if view.namespace == namespace
            and names.uids.get(view.name) != view.uid
            # An object created after the LIST cannot be in it.
            and _age(view) <= _number(names.resource_version)
        ]

    def untold(self, namespace: str, names: Names) -> list[str]:
        """Return whose state in a LIST no watch has told of."""
        return [
            name
            for name, uid in names.uids.items()
            if not self._heard_of(namespace, name, uid, names.versions.get(name, ""))
        ]

    def _heard_of(self, namespace: str, name: str, uid: str, version: str) -> bool:
        return (
            self.knows(namespace, name, uid, version)
            or self._unreadable.get((namespace, name)) == uid
            or uid in self._gone
            or uid in self._gone_before
        )

    def age(self, namespace: str, names: Names) -> None:
        """Forget what went before the last two LISTs, and what could not be read and went."""
        self._gone_before, self._gone = self._gone, set()
        for place, uid in list(self._unreadable.items()):
            if place[0] == namespace and names.uids.get(place[1]) != uid:
                del self._unreadable[place]


class Cache:
    """All kinds that are watched.

    Args:
        clock: seconds that only go on.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self.runs: Shelf[RunView] = Shelf(lambda run: cluster_of(run, settings))
        self.jobs: Shelf[RayJobView] = Shelf(lambda job: job.owner)
        self.clusters: Shelf[ClusterView] = Shelf(lambda _: "")
        self.pods: Shelf[PodView] = Shelf(lambda pod: pod.cluster)
        self.departed = Departed(clock)

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
        return (*self.departed.of(namespace, cluster), *over)

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
    """Return the shared cluster of a run; empty for a dedicated one."""
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
    return int(resource_version) if resource_version.isdecimal() else 0
