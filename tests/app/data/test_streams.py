"""A pass on its way to the ranks: what each is told of its end."""

from trainshed.data.feed.streams import Left, Stream


def test_who_has_left_a_pass_is_not_told_that_it_has_ended() -> None:
    stream = Stream[str](num_ranks=2, depth=2)
    stream.put([0, 1], "row")

    stream.leave(0)

    assert stream.take(0) == Left()
    stream.end()
    assert stream.take(0) == Left()
    assert [stream.take(1), stream.take(1)] == ["row", None]
