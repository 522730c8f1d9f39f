"""Making the next items ready in a thread while the present one is used."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Item = TypeVar("Item")


def prefetched(
    items: Iterator[Item], depth: int, weigh: Callable[[Item], int] = lambda _: 1
) -> Generator[Item, None, None]:
    """Yield the items; a thread makes more ahead while those that wait weigh less than `depth`.

    With depth 0 there is no thread. Closing the generator ends the thread and closes the items; an
    error of theirs is raised here.
    """
    if not depth:
        yield from items
        return
    ahead = _Ahead(items, depth, weigh)
    try:
        yield from ahead.items()
    finally:
        ahead.close()


class _Ahead(Generic[Item]):
    def __init__(self, items: Iterator[Item], depth: int, weigh: Callable[[Item], int]) -> None:
        self._source = items
        self._depth = depth
        self._weigh = weigh
        self._ready: deque[tuple[Item, int]] = deque()
        self._weight = 0
        self._changed = threading.Condition()
        self._ended = self._closed = False
        self._error: BaseException | None = None
        threading.Thread(target=self._fill, name="prefetch", daemon=True).start()

    def items(self) -> Iterator[Item]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._ended)
                if not self._ready:
                    break
                item, weight = self._ready.popleft()
                self._weight -= weight
                self._changed.notify_all()
            yield item
            del item  # or it would live on here while the next one is made
        if self._error:
            raise self._error

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()

    def _fill(self) -> None:
        try:
            for item in self._source:
                if not self._put(item):
                    break
                del item
        # Whatever ends the items must reach who waits for them.
        except BaseException as error:
            self._error = error
        finally:
            if isinstance(self._source, Generator):
                self._source.close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _put(self, item: Item) -> bool:
        weight = self._weigh(item)
        with self._changed:
            self._changed.wait_for(lambda: self._weight < self._depth or self._closed)
            if self._closed:
                return False
            self._ready.append((item, weight))
            self._weight += weight
            self._changed.notify_all()
            return True
