"""Bytes of datasets, as far as samples tell, and the memory that is there for them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# Estimates that are no further apart are told as one number.
UNCERTAIN = 0.02


@dataclass(frozen=True)
class WorkerNode:
    """A node that may get workers: how many, and its bytes; None where nobody knows."""

    workers: int
    memory: int | None
    object_store: int | None


@dataclass(frozen=True)
class CacheMemory:
    """Memory that caches may count on, in bytes.

    Args:
        worker: of one worker.
        object_store: of the data's nodes, all together.
        nodes: that may get workers; none while they are still to come.
    """

    worker: int
    object_store: int
    nodes: tuple[WorkerNode, ...] = ()

    @property
    def node_store(self) -> int:
        """Return the object store of the smallest node with workers; 0 while nobody knows."""
        return min((node.object_store or 0 for node in self.nodes), default=0)


@dataclass(frozen=True)
class Size:
    """Bytes by the rows that were looked at: on the whole, and as the smallest and largest tell."""

    least: int
    likely: int
    most: int

    def part(self, share: float) -> Size:
        """Return that share of it."""
        return Size(int(self.least * share), int(self.likely * share), int(self.most * share))

    def say(self) -> str:
        """Return the size for people, with how sure it is."""
        text = f"about {megabytes(self.likely)}"
        if self.most <= (1 + UNCERTAIN) * self.least:
            return text
        return f"{text} ({megabytes(self.least)} to {megabytes(self.most)})"


@dataclass(frozen=True)
class Measured:
    """What samples of the dataset showed.

    Args:
        row_bytes: mean size of a transformed row among the first ones.
        keeps_rows: whether the transforms returned as many rows as they got.
        elsewhere: mean sizes of transformed rows at other places of the dataset.
        read_bytes: the largest mean size of rows before the transforms at any of these places.
        growth: rows that the transforms make of one; 1 where they make no more.
        grouped: where rows go in groups, mean sizes of a row that was read, or of what was made of
            it where that is more, at all places: of groups only all rows tell what they make.
        types: of columns of numbers after the transforms, of all places together.
        augmented_types: of those after the augmentations.
        columns: types of all columns as they are fed.
        row_seconds: what transforms took for a row that they made, at the quickest of these places.
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

    def size(self, rows: int) -> Size:
        """Return the size of so many rows after the transforms, or of what goes into groups."""
        seen = self.grouped or (self.row_bytes, *self.elsewhere)
        return Size(*(int(each * rows) for each in (min(seen), sum(seen) / len(seen), max(seen))))


def megabytes(num_bytes: float) -> str:
    """Return a size for people."""
    return f"{num_bytes / 2**20:,.1f} MB"
