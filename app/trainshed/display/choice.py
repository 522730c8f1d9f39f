"""Which display fits what a run's events are written to."""

import sys
from typing import Protocol, TextIO

from trainshed.display.json_lines import LineDisplay
from trainshed.display.terminal import TerminalDisplay
from trainshed_api.progress import AnyEvent


class Display(Protocol):
    """What shows the events of one run, in the order in which they happen."""

    def show(self, event: AnyEvent) -> None:
        """Show one event. Nothing is shown after the finished event."""

    def close(self) -> None:
        """Give the terminal back; closing twice is fine."""


def choose_display(stream: TextIO = sys.stdout) -> Display:
    """A display that fits what `stream` leads to: a terminal, or a file or pipe."""
    return TerminalDisplay(stream) if stream.isatty() else LineDisplay(stream)
