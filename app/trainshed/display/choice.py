"""Which display fits what a run's events are written to; JSON lines for programs and logs."""

import os
import sys
from dataclasses import dataclass
from typing import Protocol, TextIO

from trainshed.display.terminal import TerminalDisplay
from trainshed_api.progress import AnyEvent, Finished


class Display(Protocol):
    """What shows the events of one run, in the order in which they happen."""

    def show(self, event: AnyEvent) -> None:
        """Show one event. Nothing is shown after the finished event."""

    def close(self) -> None:
        """Give the terminal back; closing twice is fine."""


def choose_display(stream: TextIO = sys.stdout) -> Display:
    """A display that fits what `stream` leads to: a terminal, or a file or pipe."""
    return TerminalDisplay(stream) if stream.isatty() else LineDisplay(stream)


@dataclass
class LineDisplay:
    """Writes each event as one line of JSON, at once; the finished event is the last line."""

    stream: TextIO
    _closed: bool = False

    def show(self, event: AnyEvent) -> None:
        """Write one event, unless the finished event was written or nobody reads any more."""
        if self._closed:
            return
        self._closed = isinstance(event, Finished)
        try:
            self.stream.write(event.to_line() + "\n")
            self.stream.flush()
        except BrokenPipeError:
            # `trainshed run FILE | head -1`: the reader has left, and the run goes on without it.
            # Otherwise Python flushes the rest at exit, fails again, and ends with status 120.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
            self._closed = True

    def close(self) -> None:
        """Write nothing more; the stream itself belongs to the caller."""
        self._closed = True
