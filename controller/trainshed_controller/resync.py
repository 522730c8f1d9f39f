"""What the watches have not told: who is there unheard of, who is gone. Names alone are listed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from trainshed_controller.cluster import CLUSTERS, JOBS, PODS, RUNS
from trainshed_controller.errors import ApiError

if TYPE_CHECKING:
    from trainshed_api.json_object import JsonObject
    from trainshed_controller.cache import Cache, Names, Shelf
    from trainshed_controller.cluster import Cluster, Kind
    from trainshed_controller.model import ClusterView, PodView, RayJobView, RunView

    AnyShelf = Shelf[RunView] | Shelf[RayJobView] | Shelf[ClusterView] | Shelf[PodView]

log = logging.getLogger("trainshed.resync")

_LOOK_SECONDS = 0.05

Follow = Callable[[Mapping[str, object]], Awaitable[None]]


class Resync:
    """Compares the cache with LISTs of names.

    Args:
        follow: by kind, what is done with an event of a watch; what no watch told is told so.
    """

    def __init__(self, cache: Cache, cluster: Cluster, follow: Mapping[Kind, Follow]) -> None:
        self._cluster = cluster
        self._follow = follow
        self._shelves: dict[Kind, AnyShelf] = {
            CLUSTERS: cache.clusters,
            PODS: cache.pods,
            JOBS: cache.jobs,
            RUNS: cache.runs,
        }
        # Of each watch: at how many comparisons in a row it had not told of everybody.
        self._untold_in_a_row: dict[tuple[Kind, str], int] = {}

    @property
    def deaf_for(self) -> int:
        """Return at how many comparisons in a row one and the same watch lagged behind."""
        return max(self._untold_in_a_row.values(), default=0)

    async def list_all(self, namespace: str) -> dict[Kind, Names]:
        """Return who is there of each kind. Raises ApiError where one of them cannot be listed."""
        return {kind: await self._cluster.list_names(kind, namespace) for kind in self._shelves}

    async def wait_for_watches(self, namespace: str, seconds: float) -> bool:
        """Say whether the watches tell within that time of all who are there now.

        Raises ApiError.
        """
        there = await self.list_all(namespace)
        try:
            async with asyncio.timeout(seconds):
                while any(self._shelves[kind].untold(namespace, there[kind]) for kind in there):
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            return False
        return True

    async def compare(self, namespace: str, patience_seconds: float) -> int:
        """Take out who is gone, and read what no watch told in some time; return how much it was.

        A kind that cannot be listed is left as it is.
        """
        there: dict[Kind, Names] = {}
        for kind in self._shelves:
            try:
                there[kind] = await self._cluster.list_names(kind, namespace)
            except ApiError as error:
                log.warning("cannot list %s: %s", kind[1], error)
        await asyncio.sleep(patience_seconds)
        in_all = 0
        for kind, names in there.items():
            untold = await self._catch_up(kind, namespace, names)
            before = self._untold_in_a_row.get((kind, namespace), 0)
            self._untold_in_a_row[kind, namespace] = before + 1 if untold else 0
            self._shelves[kind].age(namespace, names)
            in_all += untold
        return in_all

    async def _catch_up(self, kind: Kind, namespace: str, names: Names) -> int:
        shelf, follow = self._shelves[kind], self._follow[kind]
        untold = shelf.untold(namespace, names)
        try:
            for name in untold:
                if found := await self._cluster.find(kind, namespace, name):
                    await follow({"type": "MODIFIED", "object": found})
            for view in shelf.not_in(namespace, names):
                # A LIST may come from a server that is behind: a second one has to say so too.
                if await self._cluster.uid_of(kind, namespace, view.name) != view.uid:
                    await follow({"type": "DELETED", "object": _named(view)})
        except ApiError as error:
            log.warning("cannot ask for %s: %s", kind[1], error)
        return len(untold)


def _named(view: RunView | RayJobView | ClusterView | PodView) -> JsonObject:
    return {"metadata": {"namespace": view.namespace, "name": view.name, "uid": view.uid}}
