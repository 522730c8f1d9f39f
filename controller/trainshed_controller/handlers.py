"""What the events of watches do: put the object into the cache, and its keys into the queue.

Nobody else puts what was not asked for there. A handler cannot fail, and it decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from trainshed_controller.connection import CLUSTERS, JOBS, PODS, RUNS
from trainshed_controller.model import ClusterView, KubeObject, PodView, RayJobView, RunView
from trainshed_controller.views import identity_of, read_cluster, read_job, read_pod, read_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainshed_api.json_object import JsonObject
    from trainshed_controller.cache import Cache, Shelf
    from trainshed_controller.connection import Kind
    from trainshed_controller.model import Key

V = TypeVar("V", bound=KubeObject)


@dataclass(eq=False)
class Handler(Generic[V]):
    """What is done with the objects of one kind."""

    shelf: Shelf[V]
    read: Callable[[JsonObject], V]
    concerned: Callable[[V], set[Key]]
    enqueue: Callable[[Key], None]
    on_error: Callable[[str], None]
    went: Callable[[V], None] = lambda _: None

    def end_list(self, namespace: str, uids: Mapping[str, str]) -> None:
        """Remove what is missing in the LIST that ends, which has these uids by name."""
        for view in self.shelf.end_list(namespace, uids):
            self._remove(view.namespace, view.name, view.uid)

    def take(self, raw: JsonObject, *, is_listed: bool = False) -> None:
        """Take in an object that was listed, created or changed."""
        identity = identity_of(raw)
        if self.shelf.knows(*identity, is_listed=is_listed):
            return  # most events are the echo of our own writes
        try:
            view = self.read(raw)
            keys = self.concerned(view)
            replaced = self.shelf.get(view.namespace, view.name)
            kept = self.shelf.put(view, is_listed=is_listed)
            if kept and replaced and replaced.uid != view.uid:
                self.went(replaced)  # created again under its name, before its deletion was seen
            if replaced:
                keys |= self.concerned(replaced)  # the queue that an edited run left
        except Exception:  # one object, whatever it is, keeps no other from being seen
            self.on_error("/".join(identity[:2]))
            return
        self._enqueue_all(keys)

    def remove(self, raw: JsonObject) -> None:
        """Take in that an object was deleted."""
        self._remove(*identity_of(raw)[:3])

    def _remove(self, namespace: str, name: str, uid: str) -> None:
        known = self.shelf.get(namespace, name)
        keys = self.concerned(known) if known else set()
        if gone := self.shelf.remove(namespace, name, uid):
            self.went(gone)
        self._enqueue_all(keys)

    def _enqueue_all(self, keys: set[Key]) -> None:
        for key in sorted(keys):  # in one order, so that what happened can happen again
            self.enqueue(key)


AnyHandler = Handler[ClusterView] | Handler[PodView] | Handler[RayJobView] | Handler[RunView]


def make_handlers(
    cache: Cache,
    enqueue: Callable[[Key], None],
    forget: Callable[[RunView], None],
    on_error: Callable[[str], None],
) -> dict[Kind, AnyHandler]:
    """Return by kind what is done with an event of a watch.

    on_error: called, in the handling of that error, with the name of an object that cannot be read.
    """

    def read_known_pod(raw: JsonObject) -> PodView:
        return read_pod(raw, cache.pods.get(*identity_of(raw)[:2]))

    given = cache.concerned, enqueue, on_error
    return {
        CLUSTERS: Handler(cache.clusters, read_cluster, *given),
        PODS: Handler(cache.pods, read_known_pod, *given, cache.deleted_pods.record),
        JOBS: Handler(cache.jobs, read_job, *given, cache.record_deleted_job),
        RUNS: Handler(cache.runs, read_run, *given, forget),
    }
