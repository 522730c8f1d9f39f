"""Shows a run in a notebook: its curves and its latest metrics, drawn anew as it goes on."""

import html
import sys
import time
from collections.abc import Callable

from trainshed.display.formatting import say_number
from trainshed.report.comparison import Difference
from trainshed.report.curves import collect_curves
from trainshed.report.load import AttemptHistory
from trainshed.report.page import render_comparison
from trainshed.report.timeline import Measured
from trainshed_api.progress import AnyEvent, Progress

SECONDS_BETWEEN_PAGES = 2.0
# A page of its own: its style sheet must not change that of the notebook.
# IPython warns of HTML that is nothing but an iframe.
FRAME = '<div><iframe srcdoc="{}" style="width: 100%; height: 520px; border: 0"></iframe></div>'


class NotebookDisplay:
    """Shows the events of one run.

    Args:
        name: of the run.
        draw: takes HTML that replaces what it took before.
        clock: seconds that pass.
    """

    def __init__(
        self, name: str, draw: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._draw = draw
        self._clock = clock
        self._drawn = -SECONDS_BETWEEN_PAGES
        self._events: list[AnyEvent] = []

    def show(self, event: AnyEvent) -> None:
        """Show one event; progress is drawn every other second."""
        self._events.append(event)
        is_soon = self._clock() - self._drawn < SECONDS_BETWEEN_PAGES
        if not (isinstance(event, Progress) and is_soon):
            self.close()

    def close(self) -> None:
        """Draw all that is known; nothing for a run that was finished before."""
        if not self._events:
            return
        self._drawn = self._clock()
        attempt = AttemptHistory(1, tuple(self._events))
        finished, started = attempt.finished, attempt.started
        state = finished.outcome if finished else "training" if started else "starting"
        latest: dict[str, float | None] = {}
        for event in self._events:
            if isinstance(event, Measured):
                latest |= event.metrics
        page = render_comparison(
            f"{self._name}: {state}",
            collect_curves([attempt], started.step_name if started else "step").charts,
            [Difference("", name, (say_number(value),)) for name, value in latest.items()],
            ["last"],
            "Metrics",
        )
        self._draw(FRAME.format(html.escape(page)))


def open_notebook(name: str) -> NotebookDisplay | None:
    """Return a display in the cell that runs; None outside a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if ipython is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    return NotebookDisplay(name, lambda page: handle.update(HTML(page)))
