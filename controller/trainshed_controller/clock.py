"""What time it is, as an argument: who replays hours in a second brings a clock of his own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clock:
    """now: the date, as objects have it. monotonic: seconds that only grow."""

    now: Callable[[], datetime] = _now
    monotonic: Callable[[], float] = time.monotonic
