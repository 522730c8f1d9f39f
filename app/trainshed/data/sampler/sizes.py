"""Sizes of datasets, estimated from samples, and the memory for them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# Estimates that are closer than this are shown as one number.
UNCERTAIN = 0.02


@dataclass(frozen=True)
class WorkerNode:
    """A node that may get workers: its number of workers, and its bytes; None if unknown."""

    workers: int
    memory: int | None
    object_store: int | None


@dataclass(frozen=True)
class CacheMemory:
    """Memory for caches, in bytes.

    Args:
        worker: of one worker.
        object_store: of the data's nodes, in all.
        nodes: that may get workers; empty before they have started.
    """

    worker: int
    object_store: int
    nodes: tuple[WorkerNode, ...] = ()

    @property
    def node_store(self) -> int:
        """Return the object store of the smallest node with workers; 0 if unknown."""
        return min((node.object_store or 0 for node in self.nodes), default=0)


@dataclass(frozen=True)
class Size:
    """An estimated size in bytes, with the estimates of the smallest and largest samples."""

    least: int
    likely: int
    most: int

    def __add__(self, other: Size) -> Size:
        """Return the size of both."""
        return Size(self.least + other.least, self.likely + other.likely, self.most + other.most)

    def part(self, share: float) -> Size:
        """Return a share of it."""
        return Size(int(self.least * share), int(self.likely * share), int(self.most * share))

    def say(self) -> str:
        """Return the size for people, with its uncertainty."""
        text = f"about {megabytes(self.likely)}"
        if self.most <= (1 + UNCERTAIN) * self.least:
            return text
        return f"{text} ({megabytes(self.least)} to {megabytes(self.most)})"


NOTHING = Size(0, 0, 0)


@dataclass(frozen=True)
class Measured:
    """The results of sampling a dataset.

    Args:
        row_bytes: mean size of a transformed row among the first ones.
        keeps_rows: whether the transforms returned as many rows as they got.
        elsewhere: mean sizes of transformed rows at other positions of the dataset.
        read_bytes: the largest mean size of rows before the transforms at any position.
        growth: rows that the transforms make of one; 1 if no more.
        grouped: for groups, mean sizes of a row before or after earlier transforms, whichever is
            larger, at all positions: only all rows tell what groups return.
        types: of numeric columns after the transforms, from all positions.
        augmented_types: of those after the augmentations.
        columns: types of all columns as they are fed.
        num_sorted_labels: labels seen, if the rows are sorted by them; else 0.
        row_seconds: of the transforms per returned row, at the fastest position.
    """

    row_bytes: float
    keeps_rows: bool
    elsewhere: tuple[float, ...] = ()
    read_bytes: float = 0.0
    growth: float = 1.0
    grouped: tuple[float, ...] = ()
    row_seconds: float = 0.0
    types: tuple[tuple[str, str], ...] = ()
    augmented_types: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    num_sorted_labels: int = 0

    def size(self, rows: int) -> Size:
        """Return the size of this many rows after the transforms, or of the input of groups."""
        seen = self.grouped or (self.row_bytes, *self.elsewhere)
        return Size(*(int(each * rows) for each in (min(seen), sum(seen) / len(seen), max(seen))))


def megabytes(num_bytes: float) -> str:
    """Return a size for people; one below 0.1 MB in kB."""
    if 0 < num_bytes < 2**20 / 10:
        return f"{num_bytes / 2**10:,.1f} kB"
    return f"{num_bytes / 2**20:,.1f} MB"
