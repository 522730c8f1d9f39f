"""Prepares the next items in a thread while the current one is used."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from trainshed.data.sources.stage_timer import STAGE_TIMER

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.data.sampler.stage_time import StageKey

Item = TypeVar("Item")

# Seconds between calls of `while_waiting`: a stop takes effect within two seconds.
SECONDS_BETWEEN_CALLS = 1.0


class Prefetched(Iterator[Item]):
    """Yields the items; a thread makes more while the weight of ready ones is below `depth`.

    The thread starts with the first requested item. Closing or deleting this object ends the
    thread and closes the items; an error of the items is raised here. If `while_waiting` is set,
    the consuming thread calls it repeatedly while it waits for the next item; an exception from it
    ends the wait.

    Args:
        items: made in the thread.
        depth: maximum weight of ready items. With 0 each item is made on request, in the thread
            only if `while_waiting` is set.
        weigh: returns the weight of an item.
        finish: called with each item in the same thread; returns the item to yield.
    """

    def __init__(
        self,
        items: Iterator[Item],
        depth: int,
        weigh: Callable[[Item], int] = lambda _: 1,
        finish: Callable[[Item], Item] = lambda item: item,
    ) -> None:
        self._items = items
        self._weigh = weigh
        self._finish = finish
        self._ahead = _Ahead(items, depth, weigh, finish) if depth else None
        self.while_waiting: Callable[[], None] | None = None

    def __next__(self) -> Item:
        if self._ahead is None and self.while_waiting:
            self._ahead = _Ahead(self._items, 0, self._weigh, self._finish)
        if self._ahead is None:
            return self._finish(next(self._items))
        if self.while_waiting:
            while not self._ahead.is_there(SECONDS_BETWEEN_CALLS):
                self.while_waiting()
        return self._ahead.take()

    def has_next(self) -> bool:
        """Return whether an item is available without waiting."""
        return self._ahead is not None and self._ahead.has_item()

    def close(self) -> None:
        """Stop yielding items."""
        if self._ahead:
            self._ahead.close()
        elif isinstance(self._items, Generator):
            self._items.close()

    __del__ = close


class _Ahead(Generic[Item]):
    def __init__(
        self,
        items: Iterator[Item],
        depth: int,
        weigh: Callable[[Item], int],
        finish: Callable[[Item], Item],
    ) -> None:
        self._source = items
        self._depth = depth
        self._weigh = weigh
        self._finish = finish
        self._ready: deque[tuple[Item, int]] = deque()
        self._weight = 0
        self._changed = threading.Condition()
        self._begun = self._ended = self._closed = False
        # Whether somebody has asked for an item that is not there yet.
        self._is_wanted = False
        self._error: BaseException | None = None

    def has_item(self) -> bool:
        with self._changed:
            return bool(self._ready)

    def is_there(self, within_seconds: float | None = None) -> bool:
        """Request an item; return whether it, or the end, is available within this time."""
        stage = STAGE_TIMER.stage()
        with self._changed, STAGE_TIMER.starving():
            if not (self._begun or self._closed):
                self._begun = True
                thread = threading.Thread(
                    target=self._fill, args=(stage,), name="prefetch", daemon=True
                )
                thread.start()
            self._is_wanted = True
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: bool(self._ready) or self._ended or self._closed, within_seconds
            )

    def take(self) -> Item:
        self.is_there()
        with self._changed:
            if self._ready:
                item, weight = self._ready.popleft()
                self._weight -= weight
                self._is_wanted = False
                self._changed.notify_all()
                return item
        if self._error and not self._closed:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()

    def _fill(self, stage: StageKey | None) -> None:
        # Time of the items counts to the stage of the consumer.
        source = STAGE_TIMER.each(stage, self._source) if stage else self._source
        try:
            for item in source if self._depth else self._when_asked(source):
                finished = self._finish(item)
                del item
                weight = self._weigh(finished)
                with self._changed:
                    self._changed.wait_for(
                        lambda: self._weight < max(self._depth, 1) or self._closed
                    )
                    if self._closed:
                        break
                    self._ready.append((finished, weight))
                    self._weight += weight
                    self._changed.notify_all()
                del finished  # frees it while the next one is made
        # Any end of the items must reach the waiting consumer.
        except BaseException as error:
            self._error = error
        finally:
            if isinstance(self._source, Generator):
                self._source.close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _when_asked(self, source: Iterator[Item]) -> Iterator[Item]:
        """Yield the items, each of which is made once somebody asks for it."""
        with contextlib.suppress(StopIteration):
            while True:
                with self._changed:
                    self._changed.wait_for(
                        lambda: (self._is_wanted and not self._ready) or self._closed
                    )
                    if self._closed:
                        return
                yield next(source)
