"""Mixes rows of several datasets, with epochs that continue where the last one stopped. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trainshed.data.sampler.permutation import EpochPermutation, Indices, RowRange

# Rows after which a pattern repeats: a share is exact to 1 / PERIOD.
PERIOD = 1 << 16
# Datasets are in random order within this many rows: otherwise a rank with few slots of each step
# might get the same dataset in all of them.
RUN = 64


@dataclass(frozen=True)
class Segment:
    """Consecutive rows of one dataset.

    Args:
        source: index of the dataset in the mix.
        epoch: the dataset's epoch of these rows.
        pieces: ranges of its fragments, by their number there.
    """

    source: int
    epoch: int
    pieces: list[RowRange]


class Pattern(Protocol):
    """Assigns a dataset to each position of an epoch."""

    def sources(self, places: Indices) -> Indices:
        """Return the index of the dataset at each position, shape (places,)."""
        ...

    def before(self, source: int, places: Indices) -> Indices:
        """Return the number of a dataset's rows before each position, shape (places,)."""
        ...


@dataclass(frozen=True)
class Interleave:
    """Interleaves datasets evenly by weight.

    weights: of each; only their ratio matters.
    """

    weights: tuple[float, ...]

    def sources(self, places: Indices) -> Indices:
        """Return the index of the dataset at each position, shape (places,)."""
        return _period(self.weights)[places % PERIOD]

    def before(self, source: int, places: Indices) -> Indices:
        """Return the number of a dataset's rows before each position, shape (places,)."""
        seen = _seen(self.weights)[source]
        found: Indices = places // PERIOD * seen[-1] + seen[places % PERIOD]
        return found


@dataclass(frozen=True)
class Concatenated:
    """All rows of one dataset, then all of the next one; rows: of each."""

    rows: tuple[int, ...]

    def sources(self, places: Indices) -> Indices:
        """Return the index of the dataset at each position, shape (places,)."""
        return np.searchsorted(np.cumsum(self.rows), places, side="right").astype(np.int64)

    def before(self, source: int, places: Indices) -> Indices:
        """Return the number of a dataset's rows before each position, shape (places,)."""
        return np.clip(places - sum(self.rows[:source]), 0, self.rows[source])


def gathered(pattern: Pattern, start: int, stop: int) -> Indices:
    """Return the index of the rows at positions [start, stop) when sorted by dataset."""
    sources = pattern.sources(np.arange(start, stop, dtype=np.int64))
    found = np.empty_like(sources)
    found[np.argsort(sources, kind="stable")] = np.arange(len(sources))
    return found


@dataclass(frozen=True)
class MixedOrder:
    """The order of an epoch with rows of several datasets, or not all rows of one.

    Positions in the pattern continue over epochs: a dataset of small weight gets its rows however
    short epochs are, and continues where it stopped.

    Args:
        pattern: assigns datasets to positions.
        bases: for each dataset, its order in any of its epochs.
        sizes: rows of each of them.
        rows: of the epoch.
        begin: position of its first row.
    """

    pattern: Pattern
    bases: Sequence[Callable[[int], EpochPermutation]]
    sizes: tuple[int, ...]
    rows: int
    begin: int

    @property
    def is_woven(self) -> bool:
        """Return whether rows of several datasets are interleaved."""
        return len(self.sizes) > 1 and isinstance(self.pattern, Interleave)

    def segments(self, start: int, stop: int) -> Iterator[Segment]:
        """Yield the rows at positions [start, stop), dataset by dataset."""
        bounds = self.begin + np.asarray([start, stop], dtype=np.int64)
        for source, size in enumerate(self.sizes):
            first, last = self.pattern.before(source, bounds)
            while first < last:
                epoch, place = divmod(int(first), size)
                rows = min(int(last - first), size - place)
                pieces = self.bases[source](epoch).pieces(place, place + rows)
                yield Segment(source, epoch, pieces)
                first += rows


# Cached here and not in the weights, which are sent to every reading task.
@cache
def _period(weights: tuple[float, ...]) -> Indices:
    """Return the datasets of one period, shape (PERIOD,)."""
    counts = _dealt(PERIOD, weights)
    # Each row of a dataset is at the position of an even spread over the period.
    spread = [(np.arange(count) + 0.5) / count for count in counts]
    numbers = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    evenly = numbers[np.argsort(np.concatenate(spread), kind="stable")]
    mixed: Indices = np.random.default_rng(0).permuted(evenly.reshape(-1, RUN), axis=1)
    return mixed.reshape(-1)


@cache
def _seen(weights: tuple[float, ...]) -> list[Indices]:
    """Return for each dataset its rows before each position of the period, and in all of it."""
    period = _period(weights)
    return [
        np.concatenate([[0], np.cumsum(period == source)]).astype(np.int64)
        for source in range(len(weights))
    ]


def _dealt(total: int, weights: Sequence[float]) -> list[int]:
    """Divide a total into integers by weight; the largest remainders get the rest."""
    exact = np.asarray(weights) * (total / sum(weights))
    parts = np.floor(exact).astype(np.int64)
    most = np.argsort(parts - exact, kind="stable")
    parts[most[: total - int(parts.sum())]] += 1
    return [int(part) for part in parts]
