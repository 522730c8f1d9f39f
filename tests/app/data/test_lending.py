"""Memory of large arrays goes to the next ones, and never to two at once."""

import gc
import threading
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainshed.data.loader import buffer_pool
from trainshed.data.loader.buffer_pool import LEAST_BYTES, MOST_TIMES, BufferPool, lent_for
from trainshed.data.sources.column_arrays import Array

ROWS = (LEAST_BYTES // 4, 8)


def filled(pool: BufferPool, value: float, rows: int = ROWS[0]) -> Array:
    made = pool.empty((rows, ROWS[1]), np.float32)
    made[...] = value
    return made


def place_of(array: Array) -> int:
    return int(array.ctypes.data)


def test_an_array_that_nobody_has_leaves_its_memory_to_the_next() -> None:
    pool = BufferPool()
    first = filled(pool, 1)
    where = place_of(first)
    del first

    assert place_of(filled(pool, 2)) == where


@pytest.mark.parametrize(
    "kept",
    [
        lambda array: array[3:7],
        lambda array: array.reshape(-1)[::2],
        lambda array: array[0].view(np.int32),
        torch.from_numpy,
        lambda array: torch.from_numpy(array)[1:].T,
        memoryview,
    ],
)
def test_what_is_over_an_array_keeps_its_memory(kept: Callable[[Array], object]) -> None:
    pool = BufferPool()
    first = filled(pool, 1)
    held, where = kept(first), place_of(first)
    del first

    assert place_of(filled(pool, 2)) != where
    assert (np.asarray(held).astype(np.float32) != 2).all()


def test_tables_of_nearly_the_same_rows_have_the_same_memory() -> None:
    pool = BufferPool()
    first = filled(pool, 1)
    where = place_of(first)
    del first

    assert place_of(filled(pool, 2, rows=ROWS[0] - 9)) == where


def test_the_memory_that_fits_best_is_lent() -> None:
    pool = BufferPool()
    large, small = filled(pool, 1, rows=ROWS[0] + 9), filled(pool, 1)
    where = place_of(small)
    del small, large

    assert place_of(filled(pool, 2)) == where


def test_what_is_let_go_of_is_not_lent_again_even_if_it_comes_back_later() -> None:
    pool = BufferPool()
    first, second = filled(pool, 1), filled(pool, 2)
    del first
    pool.let_go()
    assert pool.held_bytes == second.nbytes
    del second

    assert pool.held_bytes == 0
    third = filled(pool, 3)
    assert pool.held_bytes == third.nbytes


@pytest.mark.parametrize("taken", [2, 5])
def test_the_end_of_a_pass_lets_go_wherever_it_comes(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = BufferPool()
    monkeypatch.setattr(buffer_pool, "LENDER", pool)
    items = lent_for(filled(pool, number) for number in range(5))
    assert len(list(islice(items, taken))) == taken
    assert pool.held_bytes

    items.close()
    gc.collect()

    assert pool.held_bytes == 0


def test_memory_that_cannot_be_had_is_not_counted() -> None:
    pool = BufferPool()
    with pytest.raises(MemoryError):
        pool.empty((2**60,), np.uint8)

    assert pool.held_bytes == 0


@pytest.mark.parametrize("dtype", [np.uint8, np.float64, "<U5", "datetime64[ns]", np.bool_])
def test_an_array_has_the_shape_and_type_that_were_asked_for(dtype: str) -> None:
    made = BufferPool().empty((3, LEAST_BYTES, 1), dtype)

    assert (made.shape, made.dtype) == ((3, LEAST_BYTES, 1), np.dtype(dtype))
    assert made.flags.writeable
    assert made.flags.aligned
    assert made.flags.c_contiguous


@pytest.mark.parametrize("rows", [3, ROWS[0]])
def test_rows_are_joined_and_taken_as_numpy_does(rows: int) -> None:
    pool, random = BufferPool(), np.random.default_rng(0)
    arrays: list[Array] = [
        random.integers(0, 99, (rows, 8)).astype(dtype) for dtype in ("<i2", ">f4", "<U3")
    ]
    wanted = random.integers(0, rows, rows)

    for some in (arrays[:1], arrays[:2], [arrays[2]] * 2, [arrays[0][:, ::-1]] * 2):
        joined, want = pool.joined(some), np.concatenate(some)
        assert joined.dtype == want.dtype
        assert (joined == want).all()
        assert (pool.taken(some[0], wanted) == some[0][wanted]).all()


def test_objects_and_small_arrays_are_left_to_numpy() -> None:
    pool = BufferPool()
    objects, small = pool.empty((LEAST_BYTES,), object), pool.empty((3,), np.int64)

    assert objects.tolist()[:1] == [None]
    assert small.shape == (3,)
    assert pool.held_bytes == 0


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), max_size=40))
def test_nothing_is_lent_twice_nor_more_held_than_was_lent(asked: list[tuple[int, int]]) -> None:
    pool, held, most = BufferPool(), list[tuple[float, Array]](), 0
    for value, (rows, dropped) in enumerate(asked):
        held.append((value, filled(pool, value, rows * LEAST_BYTES // 64)))
        most = max(most, sum(array.nbytes for _, array in held))
        assert pool.held_bytes <= most * MOST_TIMES
        assert all((array == want).all() for want, array in held)
        del held[: min(dropped, len(held) - 1)]


def test_threads_never_have_the_same_memory() -> None:
    pool, wrong = BufferPool(), list[int]()

    def use(value: int) -> None:
        for _ in range(60):
            mine = filled(pool, value)
            if not (pool.copy(mine) == value).all() or not (mine == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=use, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong
    assert pool.held_bytes <= 8 * filled(BufferPool(), 0).nbytes * MOST_TIMES
