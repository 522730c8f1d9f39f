"""Records that cannot be used: which they are, and how many. Pure.

A fragment is read from its beginning whoever reads it, and what is bad in it is bad each time: so
what is told of it is the beginning of one list, and of two that are told the longer one counts.
"""

from __future__ import annotations

from dataclasses import dataclass

# A reason may hold the record itself.
_MOST_REASON = 300


@dataclass(frozen=True)
class BadRecord:
    """A record of a file that cannot be decoded, or whose rows a transform raised on.

    Args:
        path: the file.
        place: where in it, such as `byte 1204`.
        reason: why it cannot be used.
        rows: how many are left out for it.
    """

    path: str
    place: str
    reason: str
    rows: int = 1

    def say(self) -> str:
        """Return what is wrong where, on one line."""
        reason = " ".join(self.reason.split())
        if len(reason) > _MOST_REASON:
            reason = f"{reason[:_MOST_REASON]}..."
        return f"{self.path}: {self.place}: {reason}"
