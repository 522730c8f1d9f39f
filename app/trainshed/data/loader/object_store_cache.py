"""Caches a dataset in the object store: filled once, and again if blocks are lost. No Ray here."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainshed.data.sources.errors import DataError, as_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    import ray
    from ray.data.block import Block

    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.permutation import Indices
    from trainshed.failures import InfrastructureError


@dataclass(frozen=True)
class CachedBlocks:
    """All blocks of a dataset, one for each fragment; some may be empty.

    Args:
        blocks: in the object store, in the order of the dataset; empty for a cache on disk.
        counts: (blocks,) rows of each.
        filling: generation of the cache, from 1.
        files: on the run's storage, in the order of the dataset; empty for the object store.
        num_bytes: of all blocks.
    """

    blocks: tuple[ray.ObjectRef[Block], ...]
    counts: Indices
    filling: int = 1
    files: tuple[Fragment, ...] = ()
    num_bytes: int = 0


class ObjectStoreCache:
    """The blocks of one dataset, filled on the first request; other callers wait.

    Args:
        field: of the dataset, for errors.
        fill: makes the blocks.
        turn: lock for filling a dataset: each uses all CPUs of the data.
    """

    def __init__(self, field: str, fill: Callable[[], CachedBlocks], turn: threading.Lock) -> None:
        self._field = field
        self._fill = fill
        self._turn = turn
        self._lock = threading.Lock()
        self._blocks: CachedBlocks | None = None
        self._error: DataError | InfrastructureError | None = None
        self._tries = 0

    def get(self, lost: int = 0) -> CachedBlocks:
        """Return the blocks; waits until all exist.

        A user's error is permanent; an infrastructure error is raised only to those who waited.

        Args:
            lost: generation of the cache whose blocks are lost: waits for a newer one.

        Raises:
            DataError: when they cannot be made.
            InfrastructureError: if a retry may succeed.
        """
        seen = self._tries
        with self._lock:
            if self._blocks and self._blocks.filling > lost:
                return self._blocks
            if self._error and (isinstance(self._error, DataError) or self._tries > seen):
                raise self._error
            return self._filled()

    def lose(self, filling: int) -> None:
        """Record that blocks of a generation are lost: the next request makes them again."""
        with self._lock:
            if self._blocks and self._blocks.filling == filling:
                self._blocks = None

    def _filled(self) -> CachedBlocks:
        # Free the remaining old blocks, or both generations would have to fit into the store.
        self._blocks = self._error = None
        try:
            with self._turn:
                made = self._fill()
        except Exception as error:
            self._error = as_fault(error, self._field)
            raise self._error from None
        finally:
            self._tries += 1
        self._blocks = replace(made, filling=self._tries)
        return self._blocks
