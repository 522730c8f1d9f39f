"""A pass on its way to the ranks: what each is told of its end."""

import threading
from collections.abc import Callable

import pytest

from trainshed.data.loader.streams import Left, PassStream

SECONDS = 10


@pytest.mark.parametrize(
    ("happens", "begins"),
    [
        (lambda stream: stream.come(1), True),
        (lambda stream: stream.close(), False),
        (lambda stream: [stream.leave(0), stream.leave(1)], False),
    ],
)
def test_the_next_pass_is_begun_once_a_rank_has_come_to_this_one(
    happens: Callable[[PassStream[str]], object], begins: bool
) -> None:
    stream, answers = PassStream[str](world_size=2, depth=2), list[bool]()
    stream.put([0, 1], "row")
    stream.end()
    waiting = threading.Thread(target=lambda: answers.append(stream.wait_for_a_rank()))
    waiting.start()
    waiting.join(0.05)
    assert not answers

    happens(stream)

    waiting.join(SECONDS)
    assert answers == [begins]


def test_who_has_left_a_pass_is_not_told_that_it_has_ended() -> None:
    stream = PassStream[str](world_size=2, depth=2)
    stream.put([0, 1], "row")

    stream.leave(0)

    assert stream.take(0) == Left()
    stream.end()
    assert stream.take(0) == Left()
    assert [stream.take(1), stream.take(1)] == ["row", None]
