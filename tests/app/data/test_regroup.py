"""Another number of workers goes on in the middle of an epoch: every row still comes once."""

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.data.builders_plan import FUNCTIONS, MemoryBlocks, make_pass, make_plan, write_rows
from trainshed.data.feed.batches import Batch, Feed
from trainshed.data.feed.regroup import can_regroup, regrouped
from trainshed.data.order.plan import DatasetPlan
from trainshed.data.order.schedule import Pass

GROUPS = ([5, 11], [1, 30, 8], [26])
ROWS, BATCH = 81, 8
SHUFFLES: dict[str, JsonValue] = {
    "none": {"mode": "none"},
    "files": {"mode": "files"},
    "blocks": {"mode": "blocks"},
    "local": {"mode": "local", "bufferSize": 13},
    "global": {"mode": "global"},
}
CHANGES = ((2, 1), (2, 3), (3, 2), (1, 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows"), GROUPS)


def begin(plan: DatasetPlan, at: Pass, steps: int) -> list[list[Batch]]:
    """Return the first steps of those who begin, by rank."""
    ranks = range(at.num_ranks)
    made = (Feed(plan, MemoryBlocks(plan, rank), rank).batches(at) for rank in ranks)
    return [list(batches)[:steps] for batches in made]


def go_on(plan: DatasetPlan, at: Pass, num_ranks: int) -> list[list[Batch]]:
    """Return the steps of those who go on, by rank."""
    ranks = range(num_ranks)
    blocks = [MemoryBlocks(plan, rank) for rank in ranks]
    return [list(regrouped(plan, blocks[rank], at, rank, num_ranks)) for rank in ranks]


def rows_of(ranks: list[list[Batch]]) -> Counter[int]:
    return Counter(row for rank in ranks for batch in rank for row in batch.tensors["id"].tolist())


def by_step(ranks: list[list[Batch]]) -> list[dict[int, tuple[float, ...]]]:
    """Return each step's rows with their values, whoever has them."""
    steps: list[dict[int, tuple[float, ...]]] = []
    for batches in zip(*ranks, strict=True):
        rows: dict[int, tuple[float, ...]] = {}
        for batch in batches:
            names = [name for name in batch.tensors if name != "id"]
            for place, row in enumerate(batch.tensors["id"].tolist()):
                values = (batch.tensors[name][place].flatten().tolist() for name in names)
                rows[row] = tuple(value for part in values for value in part)
        steps.append(rows)
    return steps


@pytest.mark.parametrize(("before", "now"), CHANGES)
@pytest.mark.parametrize(("loader", "mode"), [*product(("ray-data", "torch"), SHUFFLES)])
def test_steps_are_those_that_would_have_been(
    folder: Path, loader: str, mode: str, before: int, now: int
) -> None:
    plan = make_plan(
        folder,
        loader=loader,  # type: ignore[arg-type]  # a text here
        num_workers=before,
        shuffle=SHUFFLES[mode],
        augment=[{"use": f"{FUNCTIONS}:noise"}],
    )
    at = make_pass(epoch=1, num_ranks=before, batch_size=BATCH)
    whole = begin(plan, at, ROWS)
    rest = go_on(plan, replace(at, first_step=4), now)

    assert by_step(rest) == by_step(whole)[4:]
    assert len({len(rank) for rank in rest}) == 1
    for step, batches in enumerate(zip(*rest, strict=True)):
        sizes = [batch.rows for batch in batches]
        assert {batch.total for batch in batches} == {sum(sizes)} == {BATCH}, step
        assert max(sizes) - min(sizes) <= 1
    seen = rows_of([rank[:4] for rank in whole]) + rows_of(rest)
    assert max(seen.values()) == 1
    assert seen.total() == ROWS // BATCH * BATCH


def test_a_last_step_that_is_kept_comes_too_unless_a_worker_would_have_no_row(folder: Path) -> None:
    plan = make_plan(folder, feed={"lastBatch": "keep"})
    at = make_pass(num_ranks=1, batch_size=BATCH, first_step=9)  # 9 rows are left: 8 and 1

    assert [batch.rows for batch in go_on(plan, at, 1)[0]] == [8, 1]
    assert [[batch.rows for batch in rank] for rank in go_on(plan, at, 2)] == [[4], [4]]


def test_workers_that_all_see_all_rows_go_on_with_all_of_them(folder: Path) -> None:
    plan = make_plan(folder, split=False)
    at = make_pass(num_ranks=2, batch_size=BATCH)
    whole = by_step(begin(plan, at, ROWS)[:1])
    rest = go_on(plan, replace(at, first_step=3), 3)

    assert all(by_step([rank]) == whole[3:] for rank in rest)
    assert {batch.total for rank in rest for batch in rank} == {3 * BATCH // 2}


@pytest.mark.parametrize(
    ("loader", "cache", "mode", "want"),
    [
        ("ray-data", "none", "local", True),
        ("ray-data", "none", "global", False),
        ("ray-data", "objects", "global", True),
        ("torch", "none", "global", True),
    ],
)
def test_only_a_global_shuffle_that_streams_cannot_be_gone_on_with(
    folder: Path, loader: str, cache: str, mode: str, want: bool
) -> None:
    plan = make_plan(folder, loader=loader, cache=cache, shuffle=SHUFFLES[mode])  # type: ignore[arg-type]  # a text here

    assert can_regroup(plan) is want
