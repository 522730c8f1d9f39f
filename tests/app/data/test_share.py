"""Equal shares for functions that use Ray Data's own iterator."""

from pathlib import Path

import pytest

from tests.app.data.builders_plan import (
    FUNCTIONS,
    MemoryBlocks,
    make_pass,
    make_plan,
    shuffles,
    write_rows,
)
from trainshed.data.loader.batches import Feed

ROWS = 41
SHUFFLES = shuffles(6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), ([5, 7], [1, 20], [8]))


def shares_of(folder: Path, mode: str, epoch: int) -> list[list[float]]:
    """Return each rank's draws of an epoch: one a row, of an augmentation, in its order."""
    plan = make_plan(folder, shuffle=SHUFFLES[mode], augment=[{"use": f"{FUNCTIONS}:noise"}])
    at = make_pass("even", epoch=epoch, world_size=2, batch_size=10)
    feeds = [Feed(plan, MemoryBlocks(plan, rank), rank) for rank in (0, 1)]
    tables = [list(feed.columns(at)) for feed in feeds]
    assert [[len(table["id"]) for table in mine] for mine in tables] == [[5, 5, 5, 5]] * 2
    rows = [int(row) for mine in tables for table in mine for row in table["id"]]
    assert len(set(rows)) == ROWS - 1
    return [[float(draw) for table in mine for draw in table["draw"]] for mine in tables]


@pytest.mark.parametrize("mode", SHUFFLES)
def test_every_rank_has_equally_many_rows_of_its_own(folder: Path, mode: str) -> None:
    first = shares_of(folder, mode, epoch=0)
    assert shares_of(folder, mode, epoch=0) == first
    assert shares_of(folder, mode, epoch=1) != first


def test_a_dataset_that_is_not_split_comes_whole_to_every_rank(folder: Path) -> None:
    plan = make_plan(folder, split=False)
    at = make_pass("even", world_size=2, batch_size=10)
    for rank in (0, 1):
        feed = Feed(plan, MemoryBlocks(plan, rank), rank)
        assert sum(len(table["id"]) for table in feed.columns(at)) == ROWS
