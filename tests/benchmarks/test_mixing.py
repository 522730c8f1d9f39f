"""The order that the shuffle benchmark measures is the order that ranks receive."""

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
def test_the_measured_order_is_the_order_of_the_batches(tmp_path: Path, mode: str) -> None:
    folder = write_rows(tmp_path, [[ROWS // FILES // GROUPS] * GROUPS] * FILES, width=1)
    # Row groups this small are merged into larger blocks, which the made-up plan must have too.
    plan = make_plan(folder, cache="none", shuffle=SHUFFLES[mode])
    blocks = plan.counts.tolist()
    made_up = mixing.make_plan(FILES, len(blocks) // FILES, ROWS, SHUFFLES[mode])  # type: ignore[arg-type]  # a mapping
    epoch_pass = make_pass(epoch=2, world_size=1, batch_size=BATCH)
    received = [
        batch.tensors["id"].numpy()
        for batch in Feed(plan, MemoryBlocks(plan, 0), 0).batches(epoch_pass)
    ]

    assert mixing.rows_in_order(made_up, BATCH, 2).tolist() == np.concatenate(received).tolist()


def test_rows_in_file_order_have_distance_one_and_batches_of_one_class() -> None:
    rows = np.arange(ROWS)

    assert mixing.distance(rows) == 1
    # The shares in a batch are 1 and 0, where a quarter is expected.
    assert mixing.spread(rows[:96], 96, 4, 8) == pytest.approx(np.sqrt(8))


def test_random_rows_have_a_third_of_them_as_distance_and_the_spread_of_chance() -> None:
    rows = np.random.default_rng(0).permutation(64_000)

    assert mixing.distance(rows) == pytest.approx(64_000 / 3, rel=0.02)
    assert mixing.spread(rows, 64_000, CLASSES, 64) == pytest.approx(1, rel=0.05)


def test_shuffled_windows_keep_rows_in_their_window() -> None:
    rows = mixing.shuffle_windows(100, 30)

    assert sorted(rows.tolist()) == list(range(100))
    assert (rows // 30 == np.arange(100) // 30).all()
