"""Memory of large arrays that goes, once nobody has them, to the next ones.

A pass makes arrays of many megabytes all the time: windows of a shuffle, batches of pictures.
glibc gives theirs back to the kernel, whatever it is told (allocator.py): what is above 32 MB, and
in threads what a heap of 64 MB held. Pages made anew cost more than the rows that are put there.
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
        """What numpy asks of an object with memory, version 3 of its array interface."""

        version: int
        shape: tuple[int]
        typestr: str
        data: tuple[int, bool]


Item = TypeVar("Item")

# Below it glibc has memory at hand, of this thread or another.
LEAST_BYTES = 2**20
# Of what was asked for: not all tables have as many rows.
MOST_TIMES = 1.25


class BufferPool:
    """Lends memory, and has it back with the last array over it; used by several threads.

    It never has more, lent and at hand, than was lent at one time since it last let go.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A loan may end in the middle of anything, also of what the lock is held for.
        self._returned: deque[tuple[int, Memory | None]] = deque()
        # What was used last is last.
        self._at_hand: list[Memory] = []
        self._lent = self._most = self._times_let_go = 0

    @property
    def held_bytes(self) -> int:
        """Return the bytes that are lent and at hand."""
        with self._lock:
            self._settle()
            return self._held()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an array whose values are anything, as numpy.empty does."""
        kind = np.dtype(dtype)
        count = math.prod(shape) * kind.itemsize
        if kind.hasobject or count < LEAST_BYTES:
            return np.empty(shape, kind)
        # Views, and tensors over them, keep this array, and it alone keeps the loan.
        lent: Memory = np.asarray(_Loan(self, self._take(count), self._times_let_go))
        return lent[:count].view(kind).reshape(shape)

    def copy(self, array: Array) -> Array:
        """Return a copy."""
        copied = self.empty(array.shape, array.dtype)
        copied[...] = array
        return copied

    def joined(self, arrays: Sequence[Array]) -> Array:
        """Return the rows of arrays, as numpy.concatenate does."""
        if sum(array.nbytes for array in arrays) < LEAST_BYTES:
            return np.concatenate(arrays)
        shape = (sum(map(len, arrays)), *arrays[0].shape[1:])
        into = self.empty(shape, np.result_type(*(array.dtype for array in arrays)))
        return np.concatenate(arrays, out=into)

    def taken(self, array: Array, wanted: NDArray[np.int64]) -> Array:
        """Return rows of an array, a copy: what `array[wanted]` is.

        wanted: positions that the array has, none counted from its end.
        """
        # Of what lies in no order numpy.take would copy all before.
        if len(wanted) * array[:1].nbytes < LEAST_BYTES or not array.flags.c_contiguous:
            return array[wanted]
        into = self.empty((len(wanted), *array.shape[1:]), array.dtype)
        # With mode "raise" numpy would gather aside first.
        np.take(array, wanted, axis=0, out=into, mode="clip")
        return into

    def let_go(self) -> None:
        """Keep nothing at hand, nor what was lent by now and comes back later."""
        with self._lock:
            self._settle()
            self._times_let_go += 1
            self._at_hand.clear()
            self._most = self._lent

    def give_back(self, memory: Memory, times_let_go: int) -> None:
        """Have memory at hand again that was lent when this had let go so many times."""
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
    """Memory that is lent for as long as this lives."""

    def __init__(self, lender: BufferPool, memory: Memory, times_let_go: int) -> None:
        self._lender = lender
        self._memory = memory
        self._times_let_go = times_let_go

    @property
    def __array_interface__(self) -> _Interface:  # numpy asks for it by this name
        return {
            "version": 3,
            "shape": self._memory.shape,
            "typestr": "|u1",
            "data": (self._memory.ctypes.data, False),
        }

    def __del__(self) -> None:
        self._lender.give_back(self._memory, self._times_let_go)


LENDER = BufferPool()


def lent_for(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield items; after the last one others of this process need their memory more."""
    try:
        yield from items
    finally:
        LENDER.let_go()
