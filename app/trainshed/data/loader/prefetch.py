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
    """Gives the items; a thread makes more ahead while those that wait weigh less than `depth`.

    The thread begins with the first item that is asked for. Closing this, or letting go of it, ends
    the thread and closes the items; an error of theirs is raised here. Who sets `while_waiting` is
    called again and again, in the thread that takes, while the next item is waited for; what that
    raises ends the wait.

    The thread starts with the first requested item; with depth 0 there is none. Closing or deleting
    this object ends the thread and closes the items; an error of the items is raised here. If
    `while_waiting` is set, the consuming thread calls it repeatedly while it waits for the next
    item;
    an exception from it ends the wait. With depth 0 it is not called.
    Args:
        items: made in the thread.
        depth: what may wait. With 0 each item is made when it is asked for, in the thread only if
            `while_waiting` is set.
        weigh: what an item counts.
        finish: called with each item, in the thread too; returns what is given.
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

    def __del__(self) -> None:
        self.close()


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

    def is_there(self, within_seconds: float) -> bool:
        """Return whether an item, or the end, is available within this time."""
        stage = STAGE_TIMER.stage()
        with self._changed, STAGE_TIMER.starving():
            self._begin(stage)
            self._ask()
            return self._changed.wait_for(self._has_come, within_seconds)

    def take(self) -> Item:
        stage = STAGE_TIMER.stage()
        with self._changed, STAGE_TIMER.starving():
            self._begin(stage)
            self._ask()
            self._changed.wait_for(self._has_come)
            if self._ready:
                item, weight = self._ready.popleft()
                self._weight -= weight
                self._is_wanted = False
                self._changed.notify_all()
                return item
        if self._error and not self._closed:
            raise self._error
        raise StopIteration

    def _ask(self) -> None:
        self._is_wanted = True
        self._changed.notify_all()

    def _has_come(self) -> bool:
        return bool(self._ready) or self._ended or self._closed

    def has_item(self) -> bool:
        with self._changed:
            return bool(self._ready)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()

    def _begin(self, stage: StageKey | None) -> None:
        if not (self._begun or self._closed):
            self._begun = True
            threading.Thread(target=self._fill, args=(stage,), name="prefetch", daemon=True).start()

    def _fill(self, stage: StageKey | None) -> None:
        # Time of the items counts to the stage of the consumer.
        source = STAGE_TIMER.each(stage, self._source) if stage else self._source
        try:
            for item in source if self._depth else self._when_asked(source):
                if not self._put(self._finish(item)):
                    break
                del item  # frees it while the next one is made
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
            while self._waits_until_asked():
                yield next(source)

    def _waits_until_asked(self) -> bool:
        """Return whether the next item is wanted, once that is known."""
        with self._changed:
            self._changed.wait_for(lambda: self._lacks_item() or self._closed)
            return not self._closed

    def _lacks_item(self) -> bool:
        return self._is_wanted and not self._ready

    def _put(self, item: Item) -> bool:
        weight = self._weigh(item)
        with self._changed:
            self._changed.wait_for(lambda: self._weight < max(self._depth, 1) or self._closed)
            if self._closed:
                return False
            self._ready.append((item, weight))
            self._weight += weight
            self._changed.notify_all()
            return True
