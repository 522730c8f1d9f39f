"""Of each value exactly the share is held out, whichever way its rows come."""

from collections import Counter
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.data.sampler import strata
from trainshed.data.sampler.randomness import RowRandom
from trainshed.data.sampler.strata import NUMBER_BITS, Strata, Stratifying

SHARES = st.decimals("0.001", "0.999", places=3)
VALUES = st.lists(st.integers(0, 9), min_size=1, max_size=200)


def numbers_of(rows: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the numbers of so many rows."""
    return RowRandom(seed, 0, np.arange(rows, dtype=np.int64)).integers(0, 2**NUMBER_BITS - 1)


def found(
    values: list[int], share: float, order: list[int] | None = None, table_rows: int = 7
) -> Strata:
    """Return what is found where rows come in an order, in tables of so many."""
    stratifying = Stratifying(share)
    kinds, numbers = np.asarray(values, np.uint64), numbers_of(len(values))
    places = np.arange(len(values)) if order is None else np.asarray(order)
    for start in range(0, len(values), table_rows):
        some = places[start : start + table_rows]
        stratifying.add(kinds[some], numbers[some])
    result = stratifying.strata()
    assert result
    return result


def held(values: list[int], of: Strata) -> list[bool]:
    """Return which rows are held out."""
    cuts = of.cuts_of(np.asarray(values, np.uint64))
    assert cuts is not None
    return [bool(is_held) for is_held in numbers_of(len(values)) <= cuts]


def wanted(rows: int, share: Decimal) -> int:
    """Return how many rows of so many are held out."""
    return int((share * rows).to_integral_value(ROUND_HALF_UP))


@given(VALUES, SHARES)
def test_of_each_value_exactly_the_share_is_held_out(values: list[int], share: Decimal) -> None:
    of = found(values, float(share))

    out = Counter(value for value, is_held in zip(values, held(values, of), strict=True) if is_held)

    want = {value: wanted(rows, share) for value, rows in Counter(values).items()}
    assert {value: out[value] for value in want} == want
    assert (of.rows, of.held, of.values) == (len(values), sum(want.values()), len(want))


@given(VALUES, SHARES, st.data())
def test_how_rows_come_moves_none(values: list[int], share: Decimal, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(values))))
    table_rows = data.draw(st.integers(1, 50))

    assert found(values, float(share), order, table_rows) == found(values, float(share))


HALVES = {0.5: 1, 0.4999: 0, 0.3: 0, 0.7: 1}


@pytest.mark.parametrize("share", HALVES)
def test_a_value_of_one_row_is_held_out_from_a_half_on(share: float) -> None:
    assert found([3], share).held == HALVES[share]


def test_a_share_is_what_is_written_and_no_float() -> None:
    """0.145 * 100 is a little less than the half that it is."""
    assert found([0] * 100, 0.145).held == 15


@pytest.mark.parametrize("share", [0.0005, 0.3, 0.97])
def test_of_many_rows_few_numbers_are_held_and_none_moves(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = (np.arange(200_000) ** 2 % 7).tolist()
    all_at_once = found(values, share, table_rows=len(values))
    monkeypatch.setattr(strata, "HELD_ROWS", 1000)

    assert found(values, share, table_rows=500) == all_at_once


def test_numbers_that_are_not_held_are_asked_for_again() -> None:
    """Numbers of rows lie evenly; where they should not, too few are held about the share."""
    numbers = np.arange(100_000, dtype=np.int64)
    kinds = np.zeros(len(numbers), np.uint64)
    given_up, whole = Stratifying(0.5), Stratifying(0.5, holds_all=True)
    for each in (given_up, whole):
        each.add(kinds, numbers)

    assert given_up.strata() is None
    result = whole.strata()
    assert result
    assert np.frombuffer(result.cuts, np.int64).tolist() == [49_999]


def test_a_value_that_was_not_there_is_none_of_them() -> None:
    of = found([1, 5], 0.5)

    for value in (0, 3, 9):
        assert of.cuts_of(np.asarray([1, value], np.uint64)) is None


def test_tasks_are_told_16_bytes_a_value() -> None:
    of = found(list(range(1000)) * 2, 0.5)

    assert len(of.kinds) + len(of.cuts) == 16 * 1000
