"""Which pass over a dataset comes next, so that it can be begun ahead."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from tests.app.checkpoint.wrapped_training import EPOCHS, make_jobs, with_spec
from tests.app.data.builders_plan import with_fields
from trainshed.checkpoint.manifest import DatasetPosition, Position
from trainshed.worker.dataset_registry import DatasetRegistry

if TYPE_CHECKING:
    from trainshed.coordinator.actor import Coordinator

NO_COORDINATOR = cast("Coordinator", None)  # none is asked for a pass


@pytest.fixture(scope="module")
def feeds(tmp_path_factory: pytest.TempPathFactory) -> DatasetRegistry:
    job = make_jobs(tmp_path_factory.mktemp("run"), world_size=2)
    return DatasetRegistry(job, NO_COORDINATOR, 0, world_size=2, group=3)


@pytest.mark.parametrize("step_in_epoch", [0, 2])
def test_the_pass_that_is_begun_ahead_is_the_one_that_is_asked_for_next(
    feeds: DatasetRegistry, step_in_epoch: int
) -> None:
    now = feeds.passing("train", "train", Position(epoch=0, step_in_epoch=step_in_epoch, step=2))

    assert now.following == feeds.passing("train", "train", Position(epoch=1, step=4))


def test_nothing_follows_the_last_epoch(feeds: DatasetRegistry) -> None:
    last = Position(epoch=EPOCHS - 1, step=10)

    assert feeds.passing("train", "train", last).following is None


def test_nothing_is_begun_ahead_of_an_evaluation(feeds: DatasetRegistry) -> None:
    assert feeds.passing("train", "exact", Position()).following is None


def test_steps_are_the_same_for_any_number_of_workers(feeds: DatasetRegistry) -> None:
    position = Position(step_in_epoch=5, step=5)

    assert feeds.gone_on(position, before=3) == position


def test_where_each_worker_gets_all_rows_fewer_go_on_at_the_step_before(
    feeds: DatasetRegistry,
) -> None:
    plans = {name: with_fields(plan, split=False) for name, plan in feeds.job.plans.items()}
    whole = replace(with_spec(feeds.job, batch_size=12), plans=plans)
    two = DatasetRegistry(whole, NO_COORDINATOR, 0, world_size=2, group=3)

    # Three workers had 4 rows in a step each, two have 6: the rows from the 18th on are left.
    gone_on = two.gone_on(Position(step_in_epoch=5, step=11), before=3)

    assert gone_on == Position(step_in_epoch=3, step=11)


def test_datasets_beside_the_steps_are_resumed_at_their_own_steps(feeds: DatasetRegistry) -> None:
    plan = feeds.job.plans["train"]
    plans = {"train": plan, "shared": plan, "whole": with_fields(plan, split=False)}
    two = DatasetRegistry(
        replace(with_spec(feeds.job, batch_size=12), plans=plans), NO_COORDINATOR, 0, 2, group=3
    )
    began = DatasetPosition(epoch=4, step_in_epoch=5)
    positions = two.beside_steps_gone_on(dict.fromkeys(("shared", "whole", "gone"), began), 3)

    assert positions == {"shared": began, "whole": began.model_copy(update={"step_in_epoch": 3})}
    at = two.passing_beside_steps("shared", began)
    assert (at.epoch, at.first_step, at.following) == (4, 5, None)


def test_nothing_is_begun_ahead_where_nobody_knows_how_many_epochs_there_are(
    feeds: DatasetRegistry,
) -> None:
    endless = DatasetRegistry(
        with_spec(feeds.job, epochs=None), NO_COORDINATOR, 0, world_size=2, group=3
    )

    assert endless.passing("train", "train", Position()).following is None
