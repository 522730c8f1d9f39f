"""The rates of the loader benchmarks, and the work on their rows."""

import numpy as np
import pytest

from benchmarks.cpu_group import waits_of
from benchmarks.loaders import rates_of
from benchmarks.plain.case import work


def epoch(first: float, waited: float, steady: float) -> dict[str, float]:
    return {"firstSeconds": first, "waitedSeconds": waited, "steadySeconds": steady, "steps": 11}


def test_steady_rates_exclude_first_batches_and_whole_rates_include_them() -> None:
    found = rates_of([epoch(3, 1, 1), epoch(1, 1, 1), epoch(1, 1, 1)], batch_size=10)
    assert found == {
        "steady": pytest.approx(100),
        "whole": pytest.approx(330 / 8),
        "later": pytest.approx(220 / 4),
        "epoch 1": pytest.approx(110 / 4),
        "epoch 2": pytest.approx(110 / 2),
        "epoch 3": pytest.approx(110 / 2),
    }


def test_the_wait_of_later_epochs_includes_their_first_batch() -> None:
    found = waits_of([epoch(9, 0, 10), epoch(1, 1, 9), epoch(1, 1, 9)])
    assert found == {
        "steady": pytest.approx(100 * 2 / 28),
        "later": pytest.approx(100 * 4 / 20),
        "cold": 9,
        "warm": 1,
    }


@pytest.mark.parametrize("rounds", [0, 2])
def test_the_work_on_a_row_depends_only_on_that_row(rounds: int) -> None:
    rows = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    one_by_one = np.stack([work(row, rounds) for row in rows])
    assert work(rows, rounds).dtype == rows.dtype
    assert np.array_equal(work(rows, rounds), one_by_one)
