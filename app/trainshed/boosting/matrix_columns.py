"""Which columns of a table are features, labels and weights, as XGBoost takes them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainshed.data.sources.casts import find_misfit
from trainshed.data.sources.column_arrays import cut_rows, is_text, join
from trainshed_api.errors import no_column

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from trainshed.data.sources.column_arrays import Array, Columns


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

    def inputs(self, columns: Columns) -> list[FeatureColumn]:
        """Return the columns with features as a table has them, and the label last."""
        others = (self.label, self.weight, self.group)
        names = list(self.features) or [name for name in columns if name not in others]
        return [FeatureColumn.of(name, columns[name]) for name in (*names, self.label)]

    def check(self, columns: Columns, place: str) -> None:
        """Refuse columns that are not there.

        Raises:
            ValueError: naming the columns that are.
        """
        wanted = [self.label, *self.features, *self.categorical, self.weight, self.group]
        missing = [name for name in wanted if name is not None and name not in columns]
        if missing:
            raise ValueError(f"{place}: {no_column(missing[0], columns)}")


Kind = Literal["numbers", "texts", "missing"]


@dataclass(frozen=True)
class FeatureColumn:
    """What a column is, as far as rows have told.

    Args:
        name: of the column.
        width: numbers a row holds; None for a column of one number a row.
        kind: of its values; missing where there was none yet.
    """

    name: str
    width: int | None
    kind: Kind

    @classmethod
    def of(cls, name: str, values: Array) -> FeatureColumn:
        """Return what a column's values say."""
        if not is_text(values):
            return cls(name, _width(values), "numbers")
        has_texts = any(value is not None for value in values.tolist())
        return cls(name, None, "texts" if has_texts else "missing")

    def with_what(self, other: FeatureColumn, place: str) -> FeatureColumn:
        """Return what both say.

        Raises:
            ValueError: where they say different things.
        """
        if self.kind == "missing" or other.kind == "missing":
            return other if self.kind == "missing" else self
        if self != other:
            raise ValueError(
                f"{place}: column {self.name} holds {self} in some rows, {other} in others"
            )
        return self

    def __str__(self) -> str:
        return self.kind if self.width is None else f"{self.width} numbers"


def merge(several: Iterable[Sequence[FeatureColumn]], place: str) -> list[FeatureColumn]:
    """Return what tables say together, in the order of the first one.

    Raises:
        ValueError: where one lacks a column or has another kind of values in it.
    """
    tables = iter(several)
    merged = {each.name: each for each in next(tables)}
    for table in tables:
        found = {each.name: each for each in table}
        if lacking := sorted(merged.keys() ^ found.keys()):
            raise ValueError(f"{place}: column {lacking[0]} is in some tables only")
        merged = {name: each.with_what(found[name], place) for name, each in merged.items()}
    return list(merged.values())


@dataclass(frozen=True)
class Categories:
    """What values categories have in the rows that train.

    Args:
        by_column: texts of each column of texts, sorted: a text's place is its code.
        most: the largest code of each column whose whole numbers are categories.
    """

    by_column: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)

    def known(self, name: str, values: Array) -> Array:
        """Return a column's codes with NaN for those that did not train.

        XGBoost itself takes them for the largest one that did (3.2, with `ref`).
        """
        if name not in self.most:
            return values
        return np.where(np.asarray(values, np.float32) > self.most[name], np.nan, values)

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
        inputs: the columns.
        names: of the features; an array of a column `a` gives a.0, a.1, ...
        types: q for a quantity, c for a category.
    """

    inputs: tuple[FeatureColumn, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, inputs: Sequence[FeatureColumn], categorical: Collection[str]) -> Layout:
        """Return the layout of features; texts are categories, and so is what is named."""
        names: list[str] = []
        types: list[str] = []
        for each in inputs:
            width = each.width
            names += (
                [each.name] if width is None else [f"{each.name}.{place}" for place in range(width)]
            )
            is_category = each.name in categorical or each.kind == "texts"
            types += ["c" if is_category else "q"] * (1 if width is None else width)
        return cls(tuple(inputs), tuple(names), tuple(types))


def features(columns: Columns, categories: Categories, layout: Layout) -> NDArray[np.float32]:
    """Return the features of a table, shape (rows, features), whatever the order of its columns.

    Raises:
        ValueError: when a row holds more or fewer numbers than the first one did.
    """
    rows = len(columns[layout.inputs[0].name])
    table = np.empty((rows, len(layout.names)), dtype=np.float32)
    place = 0
    for each in layout.inputs:
        values = columns[each.name]
        if each.kind == "texts":
            values = categories.codes(each.name, values)
        else:
            values = categories.known(each.name, as_numbers(each.name, values))
        width = 1 if each.width is None else each.width
        flat = values.reshape(rows, -1)
        if flat.shape[1] != width:
            raise ValueError(
                f"column {each.name}: a row holds {flat.shape[1]} numbers, the first one {width}"
            )
        # Large integers are rounded as floats are, but nothing becomes infinite.
        if flat.dtype.kind == "f" and (misfit := find_misfit(flat, "float32")):
            raise ValueError(
                f"column {each.name}: got {misfit.value}; expected {misfit.expected}. XGBoost "
                "takes features as float32: change the value by a transform."
            )
        table[:, place : place + width] = flat
        place += width
    return table


def as_numbers(name: str, values: Array) -> Array:
    """Return values as numbers, NaN for missing ones.

    Raises:
        ValueError: for what is no number.
    """
    if values.dtype != object:
        return values
    try:
        return np.asarray([np.nan if v is None else v for v in values.tolist()], np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name}: {error}") from None


def _width(values: Array) -> int | None:
    """Return the numbers a row holds; None for a column of one number a row."""
    return None if values.ndim == 1 else int(np.prod(values.shape[1:]))


@dataclass
class Groups:
    """Deals whole groups of rows to ranks: the n-th group of the data is rank n % ranks's.

    Args:
        rank: this one.
        world_size: number of ranks.
    """

    rank: int
    world_size: int
    _seen: dict[object, int] = field(default_factory=dict)
    _last: object = None

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

    def count(self, tables: Iterator[Columns], column: str) -> int:
        """Return the groups there are, at most as many as ranks: no more is read."""
        for table in tables:
            self.number(table[column])
            if len(self._seen) >= self.world_size:
                break
        return min(len(self._seen), self.world_size)

    def whole(self, tables: Iterator[Columns], column: str) -> Iterator[Grouped]:
        """Yield this rank's groups, none of them cut by the end of a table."""
        held: Grouped | None = None
        for table in tables:
            numbers = self.number(table[column])
            mine = numbers % self.world_size == self.rank
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
