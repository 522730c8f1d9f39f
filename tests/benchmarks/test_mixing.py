"""What the table of shuffles says is said of the order that ranks are fed in."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import mixing
from tests.app.data.builders_plan import MemoryBlocks, make_pass, make_plan, shuffles, write_rows
from trainshed.data.loader.batches import Feed

ROWS, BATCH, CLASSES = 120, 8, 4
FILES, GROUPS = 3, 2
SHUFFLES = shuffles(20)


@pytest.mark.parametrize("mode", SHUFFLES)
def test_the_order_that_is_looked_at_is_the_order_that_is_fed(tmp_path: Path, mode: str) -> None:
    folder = write_rows(tmp_path, [[ROWS // FILES // GROUPS] * GROUPS] * FILES, width=1)
    # Row groups this small would be one block: the plan of the files has its sizes from them.
    plan = make_plan(folder, cache="none", shuffle=SHUFFLES[mode])
    blocks = plan.counts.tolist()
    drawn = mixing.plan_of(FILES, len(blocks) // FILES, ROWS, SHUFFLES[mode])  # type: ignore[arg-type]  # a mapping
    at = make_pass(epoch=2, world_size=1, batch_size=BATCH)
    fed = [
        batch.tensors["id"].numpy() for batch in Feed(plan, MemoryBlocks(plan, 0), 0).batches(at)
    ]

    assert mixing.rows_in_order(drawn, BATCH, 2).tolist() == np.concatenate(fed).tolist()


def test_rows_in_the_order_of_the_files_are_one_apart_and_of_one_class_a_batch() -> None:
    rows = np.arange(ROWS)

    assert mixing.distance(rows) == 1
    # A batch has all of one class: shares of 1 and 0 where a quarter is expected.
    assert mixing.spread(rows[:96], 96, 4, 8) == pytest.approx(np.sqrt(8))


def test_rows_in_any_order_are_a_third_of_them_apart_and_as_even_as_chance() -> None:
    rows = np.random.default_rng(0).permutation(64_000)

    assert mixing.distance(rows) == pytest.approx(64_000 / 3, rel=0.02)
    assert mixing.spread(rows, 64_000, CLASSES, 64) == pytest.approx(1, rel=0.05)


def test_a_plain_shuffle_in_windows_goes_no_further_than_its_window() -> None:
    rows = mixing.windows_in_order(100, 30)

    assert sorted(rows.tolist()) == list(range(100))
    assert (rows // 30 == np.arange(100) // 30).all()
