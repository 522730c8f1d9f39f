"""Items that are made in a thread: how far ahead, and what the caller does while it waits."""

import threading
from collections.abc import Iterator

from trainshed.data.loader.prefetch import Prefetched

MOST_SECONDS = 30.0


def do_nothing() -> None:
    """Let the caller go on waiting."""


def test_without_depth_an_item_is_made_when_it_is_asked_for() -> None:
    for while_waiting in (None, do_nothing):
        made: list[int] = []

        def make(made: list[int] = made) -> Iterator[int]:
            for number in range(3):
                made.append(number)
                yield number

        items = Prefetched(make(), depth=0)
        items.while_waiting = while_waiting
        taken_and_made = [(item, list(made)) for item in items]

        assert taken_and_made == [(0, [0]), (1, [0, 1]), (2, [0, 1, 2])]


def test_the_caller_is_called_while_an_item_is_made_without_depth() -> None:
    released = threading.Event()

    def make() -> Iterator[str]:
        yield "item" if released.wait(MOST_SECONDS) else "late"

    items = Prefetched(make(), depth=0)
    items.while_waiting = released.set

    assert list(items) == ["item"]
