"""Virtual time as dates, for whoever needs one."""

import asyncio
from datetime import UTC, datetime, timedelta

from trainshed_controller.clock import Clock

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def now() -> datetime:
    """Return the date of this virtual moment."""
    return START + timedelta(seconds=asyncio.get_running_loop().time())


def monotonic() -> float:
    """Return virtual seconds."""
    return asyncio.get_running_loop().time()


CLOCK = Clock(now, monotonic)
