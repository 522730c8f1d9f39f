"""What happened, for people: the last events with their virtual time."""

from collections import deque
from collections.abc import Callable

_KEPT = 400


class Story:
    """Args:
    now: virtual seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self.count = 0

    def tell(self, who: str, what: str) -> None:
        """Keep an event."""
        self.count += 1
        seconds = self._now()
        hours, minutes = divmod(int(seconds) // 60, 60)
        self._lines.append(f"{hours:3d}:{minutes:02d}:{seconds % 60:06.3f} {who:<12} {what}")

    def end(self, count: int = _KEPT) -> str:
        """Return the last events."""
        return "\n".join(list(self._lines)[-count:])
