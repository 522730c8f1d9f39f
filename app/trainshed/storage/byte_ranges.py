"""Ranges [start, stop) of a file to read: joined if that is cheaper, and split into parts.

Pure.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Span = tuple[int, int]
WHOLE: tuple[Span, ...] = ((0, sys.maxsize),)
# Size of a prefetched part.
PART_BYTES = 8 * 2**20
# Gap between two ranges: fetching it costs less than another request.
GAP_BYTES = 2**20


def joined(spans: Sequence[Span]) -> list[Span]:
    """Return ranges in order, with neighbours joined."""
    found: list[Span] = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1] + GAP_BYTES:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found


def cut(spans: Sequence[Span], size: int) -> list[Span]:
    """Return the parts of ranges, none beyond the end of a file."""
    return [
        (begin, min(begin + PART_BYTES, stop, size))
        for start, stop in spans
        for begin in range(start, min(stop, size), PART_BYTES)
    ]
