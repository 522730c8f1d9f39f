"""A cache is filled again when the world took it, and never for a fault of the user's."""

import errno
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest
from ray.exceptions import ObjectLostError

from trainshed.data.loader.object_store_cache import CachedBlocks, ObjectStoreCache
from trainshed.data.sources.errors import DataError
from trainshed.failures import InfrastructureError

FIELD = "spec.data.datasets.train"


class Filling:
    """Makes blocks, or fails as often as it is told."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.made = 0

    def __call__(self) -> CachedBlocks:
        """Make them."""
        self.made += 1
        if self._errors:
            raise self._errors.pop(0)
        return CachedBlocks((), np.asarray([self.made]))


def make_cache(fill: Callable[[], CachedBlocks]) -> ObjectStoreCache:
    """Return a cache of one dataset."""
    return ObjectStoreCache(FIELD, fill, threading.Lock())


WORLD = {
    "storage": OSError(errno.EIO, os.strerror(errno.EIO)),
    "node": ObjectLostError("0" * 56, None, ""),
}


@pytest.mark.parametrize("kind", WORLD)
def test_what_the_world_spoiled_is_tried_again_by_who_asks_next(kind: str) -> None:
    fill = Filling(WORLD[kind])
    cache = make_cache(fill)
    with pytest.raises(InfrastructureError, match=f"{FIELD}: ") as caught:
        cache.get()

    assert caught.value.kind == kind
    assert cache.get().counts.tolist() == [2]
    assert (cache.get().counts.tolist(), fill.made) == ([2], 2)


def test_a_fault_of_the_users_is_the_answer_for_ever() -> None:
    fill = Filling(DataError("a.parquet: row groups [1] cannot be read"))
    cache = make_cache(fill)
    for _ in range(3):
        with pytest.raises(DataError, match=r"a\.parquet"):
            cache.get()
    assert fill.made == 1


def test_lost_blocks_are_made_again_once_for_all_who_lost_them() -> None:
    fill = Filling()
    cache = make_cache(fill)
    first = cache.get()
    assert [cache.get(lost=first.filling).filling for _ in range(3)] == [2, 2, 2]
    cache.lose(first.filling)  # a late word of the first filling
    assert cache.get().filling == fill.made == 2

    cache.lose(2)
    assert cache.get().filling == fill.made == 3
