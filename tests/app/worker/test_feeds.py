"""Which pass over a dataset comes next, so that it can be begun ahead."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from tests.app.checkpoint.wrapped_training import EPOCHS, make_jobs
from trainshed.checkpoint.files import Position
from trainshed.worker.feeds import Feeds

if TYPE_CHECKING:
    from trainshed.coordinator.client import Client

NO_COORDINATOR = cast("Client", None)  # none is asked for a pass


@pytest.fixture(scope="module")
def feeds(tmp_path_factory: pytest.TempPathFactory) -> Feeds:
    job = make_jobs(tmp_path_factory.mktemp("run"), num_ranks=2)
    return Feeds(job, NO_COORDINATOR, 0, num_ranks=2, group=3)


@pytest.mark.parametrize("step_in_epoch", [0, 2])
def test_the_pass_that_is_begun_ahead_is_the_one_that_is_asked_for_next(
    feeds: Feeds, step_in_epoch: int
) -> None:
    now = feeds.passing("train", "train", Position(epoch=0, step_in_epoch=step_in_epoch, step=2))

    assert now.following == feeds.passing("train", "train", Position(epoch=1, step=4))


def test_nothing_follows_the_last_epoch(feeds: Feeds) -> None:
    last = Position(epoch=EPOCHS - 1, step=10)

    assert feeds.passing("train", "train", last).following is None


def test_nothing_is_begun_ahead_of_an_evaluation(feeds: Feeds) -> None:
    assert feeds.passing("train", "exact", Position()).following is None


def test_the_rest_of_another_number_of_workers_epoch_is_followed_by_none_of_theirs(
    feeds: Feeds,
) -> None:
    rest = feeds.passing("train", "train", Position(step_in_epoch=2, step=2, begun_by=1))

    assert (rest.num_ranks, rest.following) == (1, None)


def test_nothing_is_begun_ahead_where_nobody_knows_how_many_epochs_there_are(feeds: Feeds) -> None:
    endless = Feeds(replace(feeds._job, epochs=None), NO_COORDINATOR, 0, num_ranks=2, group=3)

    assert endless.passing("train", "train", Position()).following is None
