"""A pass in transit to the ranks: a short queue for each, filled by one thread. No Ray here."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = TypeVar("Item")


class StreamClosedError(RuntimeError):
    """A rank requested rows of a cancelled pass."""


@dataclass(frozen=True)
class Left:
    """The answer to a rank that has left the pass.

    Not an error: ranks request a slice ahead and often do not need it, and Ray prints each error
    that nobody handles.
    """


class PassStream(Generic[Item]):
    """Items for each rank in order; the producer waits if queues are full.

    A full queue does not block the others while a rank waits at an empty one: a rank that reads
    alone, or much faster, must not wait for ranks that wait for it.

    Args:
        world_size: number of workers.
        depth: maximum items that a rank may be behind.
    """

    def __init__(self, world_size: int, depth: int) -> None:
        self._queues: list[deque[Item]] = [deque() for _ in range(world_size)]
        self._depth = depth
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._came: set[int] = set()
        self._left: set[int] = set()
        self._ended = self._closed = False
        self._error: BaseException | None = None

    @property
    def is_read(self) -> bool:
        """Return whether a rank that arrived is still reading."""
        return not self._came <= self._left

    @property
    def was_read(self) -> bool:
        """Return whether a rank has arrived."""
        return bool(self._came)

    @property
    def has_failed(self) -> bool:
        """Return whether an error ended it."""
        return self._error is not None

    def put(self, ranks: Sequence[int], item: Item) -> bool:
        """Add an item for ranks that have not left, waiting for space. False once it is closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closed
                    or any(not self._queues[rank] for rank in self._waiting)
                    or all(len(self._queues[rank]) < self._depth for rank in ranks)
                )
            )
            if self._closed:
                return False
            for rank in ranks:
                if rank not in self._left:
                    self._queues[rank].append(item)
            self._changed.notify_all()
            return True

    def end(self, error: BaseException | None = None) -> None:
        """Record that nothing follows, because of an error or not."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def take(self, rank: int) -> Item | Left | None:
        """Return the rank's next item, None at the end; waits for it.

        Raises:
            StreamClosedError: if the pass was cancelled.
            BaseException: the error that ended it, after all items before it.
        """
        with self._changed:
            self._waiting.add(rank)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._queues[rank] or self._ended or self._closed or rank in self._left
            )
            self._waiting.discard(rank)
            if self._queues[rank]:
                item = self._queues[rank].popleft()
                self._changed.notify_all()
                return item
            if rank in self._left:
                return Left()
            if self._closed:
                raise StreamClosedError("this pass was cancelled: another worker group reads now")
            if self._error:
                raise self._error
            return None

    def come(self, rank: int) -> None:
        """Record that a rank reads."""
        with self._changed:
            self._came.add(rank)
            self._changed.notify_all()

    def wait_for_a_rank(self) -> bool:
        """Return True once a rank has arrived, False if the pass was cancelled by all."""
        with self._changed:
            self._changed.wait_for(lambda: self._came or self._closed or self._all_have_left())
            return bool(self._came) and not self._closed

    def leave(self, rank: int) -> None:
        """Record that a rank has left; the last one closes the pass."""
        with self._changed:
            self._left.add(rank)
            self._queues[rank].clear()
            self._closed = self._closed or (self._all_have_left() and not self._ended)
            self._changed.notify_all()

    def close(self) -> None:
        """Cancel the pass and free the queued items."""
        with self._changed:
            self._closed = True
            for queue in self._queues:
                queue.clear()
            self._changed.notify_all()

    def _all_have_left(self) -> bool:
        return len(self._left) == len(self._queues)
