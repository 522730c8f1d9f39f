"""A worker's share of a dataset for functions that use Ray Data's own iterator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.data.loader.arrow_blocks import to_block
from trainshed.ray_compat.data_iterator import IteratorFacts, PlannedShard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ray.data.block import Block

    from trainshed.data.loader.batches import Feed
    from trainshed.data.sampler.epoch_pass import EpochPass


def share_of(
    feed: Feed, world_size: int, begin: Callable[[], EpochPass], end: Callable[[float], None]
) -> PlannedShard:
    """Return Ray Data's iterator over a rank's rows of the plan.

    Args:
        feed: of the dataset, for this rank.
        world_size: number of workers.
        begin: called when an iteration begins; returns its pass.
        end: called when an iteration is over, with the seconds that the function waited.
    """
    plan = feed.plan
    schema = plan.source.schema if plan.source else None
    facts = IteratorFacts(plan.name, f"{plan.name}: cache {plan.cache}", schema)
    return PlannedShard(facts, world_size, lambda: _blocks(feed, begin()), end)


def _blocks(feed: Feed, at: EpochPass) -> Iterator[Block]:
    for columns in feed.columns(at, feed.plan.block_rows):
        yield to_block(columns)
