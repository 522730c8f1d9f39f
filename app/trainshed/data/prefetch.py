"""Making the next items ready in a thread while the present one is used."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

Item = TypeVar("Item")


class _End:
    """Marks the end of the items; carries the error that ended them, if any."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def prefetched(items: Iterator[Item], depth: int) -> Generator[Item, None, None]:
    """Yield the items; up to `depth` of them are made ahead in a thread, none when it is 0.

    Closing the generator ends the thread; an error of the items is raised here.
    """
    if not depth:
        yield from items
        return
    ready: queue.Queue[Item | _End] = queue.Queue(depth)
    closed = threading.Event()

    def put(item: Item | _End) -> None:
        while not closed.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def fill() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                put(item)
                if closed.is_set():
                    return
        except Exception as raised:
            error = raised
        put(_End(error))

    thread = threading.Thread(target=fill, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, _End):
                if item.error:
                    raise item.error
                return
            yield item
    finally:
        closed.set()
