"""Memory of large arrays that goes, once nobody has them, to the next ones.

A worker makes arrays of many megabytes all the time: windows of a shuffle, batches of pictures.
glibc gives theirs back to the kernel, whatever it is told (allocator.py): what is above 32 MB, and
in threads what a heap of 64 MB held. Pages made anew cost more than the rows that are put there.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypedDict

    from numpy.typing import DTypeLike, NDArray

    from trainshed.data.read.columns import Array, Columns

    Memory = NDArray[np.uint8]

    class _Interface(TypedDict):
        """What numpy asks of an object with memory, version 3 of its array interface."""

        version: int
        shape: tuple[int]
        typestr: str
        data: tuple[int, bool]


# Below it glibc has memory at hand, of this thread or another.
LEAST_BYTES = 2**20
# Sizes between one power of two and the next: not all tables have as many rows.
_STEPS = 8


class Lender:
    """Lends memory, and has it back with the last array over it; used by several threads.

    It never has more, lent and at hand, than was lent at one time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A loan may end in the middle of anything, also of what the lock is held for.
        self._returned: deque[Memory] = deque()
        self._at_hand: list[Memory] = []
        self._lent = self._most = 0

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
        lent: Memory = np.asarray(_Loan(self, self._take(_size_for(count))))
        return lent[:count].view(kind).reshape(shape)

    def copy(self, array: Array) -> Array:
        """Return a copy."""
        copied = self.empty(array.shape, array.dtype)
        copied[...] = array
        return copied

    def give_back(self, memory: Memory) -> None:
        """Have memory at hand again."""
        self._returned.append(memory)

    def _take(self, size: int) -> Memory:
        with self._lock:
            self._settle()
            self._lent += size
            self._most = max(self._most, self._lent)
            fits = (place for place, each in enumerate(self._at_hand) if each.nbytes == size)
            if (place := next(fits, None)) is not None:
                return self._at_hand.pop(place)
            while self._held() > self._most:
                del self._at_hand[0]
        return np.empty(size, np.uint8)

    def _settle(self) -> None:
        while self._returned:
            memory = self._returned.popleft()
            self._lent -= memory.nbytes
            self._at_hand.append(memory)

    def _held(self) -> int:
        return self._lent + sum(memory.nbytes for memory in self._at_hand)


class _Loan:
    """Memory that is lent for as long as this lives."""

    def __init__(self, lender: Lender, memory: Memory) -> None:
        self._lender = lender
        self._memory = memory

    @property
    def __array_interface__(self) -> _Interface:  # numpy asks for it by this name
        return {
            "version": 3,
            "shape": self._memory.shape,
            "typestr": "|u1",
            "data": (self._memory.ctypes.data, False),
        }

    def __del__(self) -> None:
        self._lender.give_back(self._memory)


def _size_for(count: int) -> int:
    """Return the bytes of the memory for so many, which are at least LEAST_BYTES."""
    step = (1 << (count - 1).bit_length()) // (2 * _STEPS)
    return -(-count // step) * step


LENDER = Lender()


def owned(columns: Mapping[str, Array]) -> Columns:
    """Return the columns as arrays that may be changed; those that may not are copied."""
    return {n: a if a.flags.writeable else LENDER.copy(a) for n, a in columns.items()}
