"""Which columns of a table are features, labels and weights, as XGBoost takes them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.read.columns import cut_rows, is_text, join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from trainshed.data.read.columns import Array, Columns


@dataclass(frozen=True)
class MatrixColumns:
    """What the columns of a dataset are.

    Args:
        label: the column to predict; whole numbers from 0 or texts for classes.
        features: columns that trees look at; without any all that are nothing else. A column may
            hold an array a row.
        categorical: features whose whole numbers from 0 name categories. Texts always do.
        weight: of each row.
        group: what rows are ranked against each other in; rows of one lie together.
    """

    label: str
    features: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    weight: str | None = None
    group: str | None = None

    def feature_columns(self, columns: Columns) -> list[str]:
        """Return the names of the columns with features."""
        others = (self.label, self.weight, self.group)
        return list(self.features) or [name for name in columns if name not in others]

    def text_columns(self, columns: Columns) -> list[str]:
        """Return which of the columns that are looked at hold texts."""
        looked_at = [*self.feature_columns(columns), self.label]
        return [name for name in looked_at if is_text(columns[name])]

    def check(self, columns: Columns, place: str) -> None:
        """Refuse columns that are not there.

        Raises:
            ValueError: naming the columns that are.
        """
        wanted = [self.label, *self.features, *self.categorical, self.weight, self.group]
        missing = [name for name in wanted if name is not None and name not in columns]
        if missing:
            raise ValueError(
                f"{place}: there is no column {', '.join(missing)}, only {', '.join(columns)}"
            )


@dataclass(frozen=True)
class Texts:
    """The categories of text columns, sorted: a text's place is its code.

    Args:
        by_column: texts of each column.
    """

    by_column: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def codes(self, name: str, values: Array) -> NDArray[np.float32]:
        """Return the codes of a column's texts, shape (rows,); NaN for others and missing ones."""
        known = np.asarray(self.by_column[name], dtype=np.str_)
        texts = as_texts(values)
        is_text = np.asarray([text is not None for text in texts])
        written = np.asarray([text or "" for text in texts], dtype=np.str_)
        place = np.minimum(np.searchsorted(known, written), max(0, len(known) - 1))
        found = is_text & (known[place] == written) if len(known) else np.zeros(len(texts), bool)
        return np.where(found, place, np.nan).astype(np.float32)


def as_texts(values: Array) -> list[str | None]:
    """Return a column's values as texts, None where one is missing."""
    return [None if value is None else str(value) for value in values.tolist()]


@dataclass(frozen=True)
class Layout:
    """The features of a matrix, one entry for each number that a tree looks at.

    Args:
        names: of the features; an array of a column `a` gives a.0, a.1, ...
        types: q for a quantity, c for a category.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, columns: Columns, wanted: MatrixColumns, texts: Texts) -> Layout:
        """Return the layout of a table."""
        names: list[str] = []
        types: list[str] = []
        for name in wanted.feature_columns(columns):
            width = _width(columns[name])
            names += [name] if width is None else [f"{name}.{place}" for place in range(width)]
            is_category = name in wanted.categorical or name in texts.by_column
            types += ["c" if is_category else "q"] * (width or 1)
        return cls(tuple(names), tuple(types))


def features(
    columns: Columns, wanted: MatrixColumns, texts: Texts, layout: Layout
) -> NDArray[np.float32]:
    """Return the features of a table, shape (rows, features).

    Raises:
        ValueError: when a row holds more or fewer numbers than the first one did.
    """
    names = wanted.feature_columns(columns)
    rows = len(columns[names[0]])
    table = np.empty((rows, len(layout.names)), dtype=np.float32)
    place = 0
    for name in names:
        values = texts.codes(name, columns[name]) if name in texts.by_column else columns[name]
        flat = values.reshape(rows, -1)
        if place + flat.shape[1] > table.shape[1]:
            raise ValueError(f"column {name}: rows hold more numbers than the first one")
        table[:, place : place + flat.shape[1]] = flat
        place += flat.shape[1]
    if place != table.shape[1]:
        raise ValueError(f"rows hold {place} numbers, the first one {table.shape[1]}")
    return table


def _width(values: Array) -> int | None:
    """Return the numbers a row holds; None for a column of one number a row."""
    return None if values.ndim == 1 else int(np.prod(values.shape[1:]))


class Groups:
    """Deals whole groups of rows to ranks: the n-th group of the data is rank n % ranks's.

    Args:
        rank: this one.
        num_ranks: number of ranks.
    """

    def __init__(self, rank: int, num_ranks: int) -> None:
        self._rank = rank
        self._num_ranks = num_ranks
        self._seen: dict[object, int] = {}
        self._last: object = None

    def number(self, values: Array) -> NDArray[np.int64]:
        """Return the number of each row's group, shape (rows,).

        Raises:
            ValueError: when a group comes again after another one.
        """
        starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        numbers = []
        for value in values[starts].tolist():
            if value != self._last and value in self._seen:
                raise ValueError(f"rows of group {value} do not lie together")
            self._last = value
            numbers.append(self._seen.setdefault(value, len(self._seen)))
        lengths = np.diff(np.concatenate([starts, [len(values)]]))
        return np.repeat(np.asarray(numbers, dtype=np.int64), lengths)

    def whole(self, tables: Iterator[Columns], column: str) -> Iterator[Grouped]:
        """Yield this rank's groups, none of them cut by the end of a table."""
        held: Grouped | None = None
        for table in tables:
            numbers = self.number(table[column])
            mine = numbers % self._num_ranks == self._rank
            rows = {name: values[mine] for name, values in table.items()}
            both = Grouped(rows, numbers[mine]).below(held)
            last = int(np.searchsorted(both.numbers, both.numbers[-1])) if len(both.numbers) else 0
            if last:
                yield both.cut(0, last)
            held = both.cut(last, len(both.numbers))
        if held is not None and len(held.numbers):
            yield held


@dataclass(frozen=True)
class Grouped:
    """Rows and the number of each one's group, shape (rows,), which only rises."""

    rows: Columns
    numbers: NDArray[np.int64]

    def below(self, above: Grouped | None) -> Grouped:
        """Return these rows below others."""
        if above is None:
            return self
        numbers = np.concatenate([above.numbers, self.numbers])
        return Grouped(join([above.rows, self.rows]), numbers)

    def cut(self, start: int, stop: int) -> Grouped:
        """Return rows [start, stop)."""
        return Grouped(cut_rows(self.rows, start, stop), self.numbers[start:stop])

    @property
    def firsts(self) -> NDArray[np.bool_]:
        """Return which rows are the first of their group."""
        return np.concatenate([[True], self.numbers[1:] != self.numbers[:-1]])
