"""What the watches have not told: who is there unheard of, who is gone. Names alone are asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trainshed_controller.cluster import CLUSTERS, JOBS, PODS, RUNS
from trainshed_controller.model import RunView

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_controller.cache import Cache, Names, Shelf
    from trainshed_controller.cluster import Cluster, Kind
    from trainshed_controller.model import ClusterView, Key, PodView, RayJobView

    AnyShelf = Shelf[RunView] | Shelf[RayJobView] | Shelf[ClusterView] | Shelf[PodView]

_LOOK_SECONDS = 0.05


class Resync:
    """Compares the cache with LISTs of names.

    Args:
        enqueue: has a key looked at.
        forget: told of each run that is gone.
    """

    def __init__(
        self,
        cache: Cache,
        cluster: Cluster,
        enqueue: Callable[[Key], None],
        forget: Callable[[RunView], None],
    ) -> None:
        self._cache = cache
        self._cluster = cluster
        self._enqueue = enqueue
        self._forget = forget
        self._shelves: tuple[tuple[Kind, AnyShelf], ...] = (
            (CLUSTERS, cache.clusters),
            (PODS, cache.pods),
            (JOBS, cache.jobs),
            (RUNS, cache.runs),
        )

    async def wait_for_watches(self, namespace: str, seconds: float) -> bool:
        """Say whether the watches tell within that time of all who are there now.

        Raises ApiError.
        """
        there = await self._names(namespace)
        try:
            async with asyncio.timeout(seconds):
                while any(shelf.untold(namespace, names) for _, shelf, names in there):
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            return False
        return True

    async def compare(self, namespace: str, patience_seconds: float) -> int:
        """Take out who is gone; return how many are there that no watch told of in some time.

        Raises ApiError.
        """
        there = await self._names(namespace)
        await asyncio.sleep(patience_seconds)
        untold = 0
        for kind, shelf, names in there:
            untold += len(shelf.untold(namespace, names))
            await self._take_out(kind, shelf, namespace, names)
            shelf.age(namespace, names)
        return untold

    async def _take_out(self, kind: Kind, shelf: AnyShelf, namespace: str, names: Names) -> None:
        for view in shelf.not_in(namespace, names):
            # A LIST may come from a server that is behind: one more look before it is believed.
            if await self._cluster.uid_of(kind, namespace, view.name) == view.uid:
                continue
            keys = self._cache.concerned(view)
            shelf.remove(namespace, view.name, view.uid)
            if isinstance(view, RunView):
                self._forget(view)
            for key in sorted(keys):
                self._enqueue(key)

    async def _names(self, namespace: str) -> list[tuple[Kind, AnyShelf, Names]]:
        return [
            (kind, shelf, await self._cluster.list_names(kind, namespace))
            for kind, shelf in self._shelves
        ]
