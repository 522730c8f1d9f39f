"""Events about runs, posted beside the work: they tell, and nothing depends on them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trainshed_controller.model import Note, RunView

log = logging.getLogger("trainshed.events")

# Of the size of client-go's own buffer of Events (tools/record, maxQueuedEvents).
_MOST_WAITING = 1000


@dataclass(eq=False)
class EventPoster:
    """Posts one Event after the other; one that fails is not tried again.

    An Event that is repeated is counted in the first one, as a series.

    Args:
        send: posts one under a name, or counts it if it is not the first; an error says why it
            could not.
    """

    send: Callable[[RunView, Note, str, int], Awaitable[None]]
    # Name and count of what was posted last, the oldest first.
    _series: dict[tuple[str, Note], tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[RunView, Note]] = asyncio.Queue(_MOST_WAITING)

    def post(self, view: RunView, note: Note) -> None:
        """Have an Event posted soon; where too many wait already, it is logged only."""
        try:
            self._waiting.put_nowait((view, note))
        except asyncio.QueueFull:
            log.warning("no Event: %d wait", _MOST_WAITING, extra={"run": view.path})

    def _next(self, view: RunView, note: Note) -> tuple[str, int]:
        name, count = self._series.pop((view.uid, note), ("", 0))
        if len(self._series) >= _MOST_WAITING:
            del self._series[next(iter(self._series))]
        series = name or f"{view.name}.{secrets.token_hex(8)}", count + 1
        self._series[view.uid, note] = series
        return series

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            view, note = await self._waiting.get()
            try:
                await self.send(view, note, *self._next(view, note))
            except Exception as error:  # an Event is a word about the work, and no part of it
                log.warning("no Event: %s", error, extra={"run": view.path})
            finally:
                self._waiting.task_done()

    async def drain(self, seconds: float) -> None:
        """Wait until all are posted, but no longer than that."""
        try:
            await asyncio.wait_for(self._waiting.join(), seconds)
        except TimeoutError:
            log.warning("no Event: %d are dropped", self._waiting.qsize())
