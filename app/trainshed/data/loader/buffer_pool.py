"""Reuses the memory of large arrays.

A pass creates arrays of many megabytes all the time: shuffle windows, batches of pictures. With any
setting (allocator.py) glibc returns blocks above 32 MB to the kernel, and in threads whole heaps of
64 MB. New pages cost more than the rows that are written to them.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from typing import TypedDict

    from numpy.typing import DTypeLike, NDArray

    from trainshed.data.sources.column_arrays import Array

    Memory = NDArray[np.uint8]

    class _Interface(TypedDict):
        """Version 3 of NumPy's array interface."""

        version: int
        shape: tuple[int]
        typestr: str
        data: tuple[int, bool]


Item = TypeVar("Item")

# For smaller arrays glibc reuses memory, of this thread or another.
LEAST_BYTES = 2**20
# Share of the requested size: tables differ slightly in rows.
MOST_TIMES = 1.25


class BufferPool:
    """Provides memory for arrays, and takes it back with the last view; thread-safe.

    It never holds more than was in use at one time since the last `release`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Memory may be returned at any point, even while this lock is held.
        self._returned: deque[tuple[int, Memory | None]] = deque()
        # Most recently used last.
        self._at_hand: list[Memory] = []
        self._lent = self._most = self._times_let_go = 0

    @property
    def held_bytes(self) -> int:
        """Return the bytes in use and free."""
        with self._lock:
            self._settle()
            return self._held()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an uninitialized array, like numpy.empty."""
        kind = np.dtype(dtype)
        count = math.prod(shape) * kind.itemsize
        if kind.hasobject or count < LEAST_BYTES:
            return np.empty(shape, kind)
        # Views, and tensors over them, reference this array, which alone holds the memory.
        lent: Memory = np.asarray(_Loan(self, self._take(count), self._times_let_go))
        return lent[:count].view(kind).reshape(shape)

    def copy(self, array: Array) -> Array:
        """Return a copy."""
        copied = self.empty(array.shape, array.dtype)
        copied[...] = array
        return copied

    def joined(self, arrays: Sequence[Array]) -> Array:
        """Return concatenated rows of arrays, like numpy.concatenate."""
        if sum(array.nbytes for array in arrays) < LEAST_BYTES:
            return np.concatenate(arrays)
        shape = (sum(map(len, arrays)), *arrays[0].shape[1:])
        into = self.empty(shape, np.result_type(*(array.dtype for array in arrays)))
        return np.concatenate(arrays, out=into)

    def taken(self, array: Array, wanted: NDArray[np.int64]) -> Array:
        """Return a copy of rows of an array, like `array[wanted]`.

        wanted: positions, none of them negative.
        """
        # numpy.take would first copy an array that is not contiguous.
        if len(wanted) * array[:1].nbytes < LEAST_BYTES or not array.flags.c_contiguous:
            return array[wanted]
        into = self.empty((len(wanted), *array.shape[1:]), array.dtype)
        # With mode "raise" NumPy would use a temporary buffer.
        np.take(array, wanted, axis=0, out=into, mode="clip")
        return into

    def let_go(self) -> None:
        """Free all unused memory, and memory in use when it is returned."""
        with self._lock:
            self._settle()
            self._times_let_go += 1
            self._at_hand.clear()
            self._most = self._lent

    def give_back(self, memory: Memory, times_let_go: int) -> None:
        """Take memory back that was handed out after this many releases."""
        is_wanted = times_let_go == self._times_let_go
        self._returned.append((memory.nbytes, memory if is_wanted else None))

    def _take(self, size: int) -> Memory:
        with self._lock:
            self._settle()
            fits = [each for each in self._at_hand if size <= each.nbytes <= MOST_TIMES * size]
            memory = min(fits, key=lambda each: each.nbytes, default=None)
            if memory is not None:
                self._at_hand = [each for each in self._at_hand if each is not memory]
            while self._at_hand and self._held() + size > max(self._most, self._lent + size):
                del self._at_hand[0]
        if memory is None:
            memory = np.empty(size, np.uint8)
        with self._lock:
            self._lent += memory.nbytes
            self._most = max(self._most, self._lent)
        return memory

    def _settle(self) -> None:
        while self._returned:
            num_bytes, memory = self._returned.popleft()
            self._lent -= num_bytes
            if memory is not None:
                self._at_hand.append(memory)

    def _held(self) -> int:
        return self._lent + sum(memory.nbytes for memory in self._at_hand)


class _Loan:
    """Memory that is in use as long as this object exists."""

    def __init__(self, buffer_pool: BufferPool, memory: Memory, times_let_go: int) -> None:
        self._buffer_pool = buffer_pool
        self._memory = memory
        self._times_let_go = times_let_go

    @property
    def __array_interface__(self) -> _Interface:  # NumPy reads this name
        return {
            "version": 3,
            "shape": self._memory.shape,
            "typestr": "|u1",
            "data": (self._memory.ctypes.data, False),
        }

    def __del__(self) -> None:
        self._buffer_pool.give_back(self._memory, self._times_let_go)


LENDER = BufferPool()


def lent_for(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield items; after the last one free the memory for other uses."""
    try:
        yield from items
    finally:
        LENDER.let_go()
