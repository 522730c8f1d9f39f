"""Rows that were left out as bad: how many of which dataset, and the first of them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainshed.report.load import RunData
from trainshed_api.records import bad_records_of, most_bad_records


@dataclass(frozen=True)
class BadRow:
    """A dataset, how many of its rows were left out, and where and why the first of them."""

    dataset: str
    rows: str
    first: tuple[str, ...]


def list_bad_records(run: RunData) -> Iterator[BadRow]:
    """The datasets that rows were left out of, by the attempt that met most of them."""
    met = most_bad_records(bad_records_of(attempt.events) for attempt in run.attempts)
    for name, bad in sorted(met.items()):
        yield BadRow(name, f"{bad.rows:,}", bad.first)
