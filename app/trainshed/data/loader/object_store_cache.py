"""A dataset in the object store: filled once, and again when its blocks are lost. No Ray here."""

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
        blocks: in the object store, in the order of the dataset; none where files are kept.
        counts: (blocks,) rows of each.
        filling: which one it is, from 1.
        files: on the run's storage, in the order of the dataset; none where blocks are kept.
        num_bytes: of all blocks.
    """

    blocks: tuple[ray.ObjectRef[Block], ...]
    counts: Indices
    filling: int = 1
    files: tuple[Fragment, ...] = ()
    num_bytes: int = 0


class ObjectStoreCache:
    """The blocks of one dataset, filled by who asks first; the others wait for it.

    Args:
        field: of the dataset, for errors.
        fill: makes the blocks.
        turn: held while any dataset is filled: each takes all CPUs that data may have.
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
        """Return the blocks; waits until they are all there.

        A fault of the user's is the answer for ever, one of the world's only for those who waited.

        Args:
            lost: the filling of which blocks are lost: a later one is wanted.

        Raises:
            DataError: when they cannot be made.
            InfrastructureError: when they could not be made this time.
        """
        seen = self._tries
        with self._lock:
            if self._blocks and self._blocks.filling > lost:
                return self._blocks
            if self._error and (isinstance(self._error, DataError) or self._tries > seen):
                raise self._error
            return self._filled()

    def lose(self, filling: int) -> None:
        """Take in that blocks of a filling are lost: who asks next has them made again."""
        with self._lock:
            if self._blocks and self._blocks.filling == filling:
                self._blocks = None

    def _filled(self) -> CachedBlocks:
        # Let go of what is left of the old ones, or both would have to fit into the store.
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
