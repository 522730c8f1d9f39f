"""The metrics of a run as rows of a table. Pure."""

from collections.abc import Sequence

from trainshed.report.curves import split_stretches
from trainshed.report.load import AttemptHistory
from trainshed.report.timeline import Measured, place_events
from trainshed_api.progress import Evaluated

MetricCell = float | str | None


def metric_rows(attempts: Sequence[AttemptHistory]) -> list[dict[str, MetricCell]]:
    """Return a row for each report and evaluation, without steps that were done again."""
    _, placed = place_events(attempts)
    return [
        {
            "time": event.time,
            "kind": "evaluation" if isinstance(event, Evaluated) else "training",
            "epoch": event.epoch,
            "step": event.step,
            **event.metrics,
        }
        for stretch in split_stretches(placed)
        for event in stretch.events
        if isinstance(event, Measured) and (event.step or 0) <= stretch.end
    ]
