"""A dataset as XGBoost's matrix: each rank's share of the rows in file order.

XGBoost 3.2 reads the rows that train four times (to count, to find where to cut each feature, and
to put them in) and others three times: nothing but its own compressed form is kept.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import xgboost

from trainshed.boosting.matrix_columns import (
    Categories,
    FeatureColumn,
    Groups,
    Layout,
    MatrixColumns,
    as_numbers,
    as_texts,
    features,
    merge,
)
from trainshed.worker.loop import StopTraining

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from trainshed.data.sources.column_arrays import Columns
    from trainshed.worker.step_sync import Control


@dataclass(frozen=True)
class Matrix:
    """This rank's share of a dataset.

    Args:
        data: XGBoost's own.
        columns: what they are.
        categories: of the rows that train.
        layout: of the features.
        rows: of all ranks.
    """

    data: xgboost.QuantileDMatrix
    columns: MatrixColumns
    categories: Categories
    layout: Layout
    rows: int


@dataclass(frozen=True)
class Share:
    """Where a rank gets its rows of a dataset.

    Args:
        place: the dataset's field, for errors.
        tables: yields this rank's rows in file order, each time anew; all of the dataset's where
            they are dealt out by groups.
        control: of the ranks.
        rank: this one.
        world_size: number of ranks.
    """

    place: str
    tables: Callable[[], Iterator[Columns]]
    control: Control
    rank: int
    world_size: int


def build(
    share: Share, columns: MatrixColumns, like: Matrix | None, max_bin: int, threads: int
) -> Matrix:
    """Return a dataset's matrix. A collective.

    Args:
        share: of the dataset.
        columns: what they are.
        like: the matrix that trains, for one that only scores: its cuts and categories hold.
        max_bin: cuts of a feature.
        threads: to use.

    Raises:
        ValueError: for columns that are not there, or a rank without rows.
    """
    found = _look(share, columns)
    if like:
        # The columns that train, in their order, whatever order they have here.
        merge([[*like.layout.inputs, *found[-1:]], _only(like.layout.inputs, found)], share.place)
        categories, layout = like.categories, like.layout
    else:
        layout = Layout.of(found[:-1], columns.categorical)
        categories = _categories(share, found, columns.categorical)
    try:
        data = xgboost.QuantileDMatrix(
            _Reading(share, columns, categories, layout),
            ref=like.data if like else None,
            max_bin=max_bin,
            nthread=threads,
            enable_categorical="c" in layout.types,
        )
    except _StoppedError as stopped:
        raise stopped.reason from None
    rows = torch.tensor([data.num_row()], dtype=torch.int64)
    share.control.sum(rows)
    return Matrix(data, columns, categories, layout, int(rows))


class _StoppedError(Exception):
    """Ends the reading: XGBoost's C++ only hands on what is an Exception.

    Args:
        reason: StopTraining, which is none.
    """

    def __init__(self, reason: BaseException) -> None:
        super().__init__()
        self.reason = reason


class _Reading(xgboost.DataIter):
    """Hands XGBoost a table after the other."""

    def __init__(
        self, share: Share, columns: MatrixColumns, categories: Categories, layout: Layout
    ) -> None:
        super().__init__()
        self._share = share
        self._columns = columns
        self._categories = categories
        self._layout = layout
        self._coming: Iterator[dict[str, object]] = iter(())

    def reset(self) -> None:
        """Start over."""
        self._coming = self._arguments()

    def next(self, input_data: Callable[..., None]) -> bool:
        """Hand the next table over; return whether there was one."""
        try:
            arguments = next(self._coming, None)
        except StopTraining as stop:
            raise _StoppedError(stop) from None
        if arguments is None:
            return False
        input_data(**arguments)
        return True

    def _arguments(self) -> Iterator[dict[str, object]]:
        wanted, tables = self._columns, self._share.tables()
        if wanted.group is None:
            for table in tables:
                weights = {"weight": table[wanted.weight]} if wanted.weight else {}
                yield self._as_arguments(table) | weights
            return
        groups = Groups(self._share.rank, self._share.world_size)
        for grouped in groups.whole(tables, wanted.group):
            given = self._as_arguments(grouped.rows) | {"qid": grouped.numbers}
            if wanted.weight:  # XGBoost wants one a group, and takes its first row's
                given["weight"] = grouped.rows[wanted.weight][grouped.firsts]
            yield given

    def _as_arguments(self, rows: Columns) -> dict[str, object]:
        return {
            "data": features(rows, self._categories, self._layout),
            "label": self._labels(rows),
            "feature_names": list(self._layout.names),
            "feature_types": list(self._layout.types),
        }

    def _labels(self, rows: Columns) -> NDArray[np.generic]:
        name = self._columns.label
        if name not in self._categories.by_column:
            return rows[name]
        codes = self._categories.codes(name, rows[name])
        if np.isnan(codes).any():
            unknown = as_texts(rows[name][np.isnan(codes)])[0]
            known = ", ".join(self._categories.by_column[name])
            raise ValueError(
                f"{self._share.place}: label {unknown} is no class of the rows that train: {known}"
            )
        return codes


def _look(share: Share, columns: MatrixColumns) -> list[FeatureColumn]:
    """Return what the columns are by all ranks' first tables, the label last. A collective.

    Raises:
        ValueError: on all ranks, when one has no rows, or ranks or tables differ.
    """
    mine: list[FeatureColumn] = []
    for table in share.tables():
        columns.check(table, share.place)
        now = columns.inputs(table)
        mine = merge([mine, now], share.place) if mine else now
        if all(each.kind != "missing" for each in mine):
            break
    _check_rows(share, has_rows=bool(mine))
    if columns.group is not None:
        _check_groups(share, columns.group)
    told = _gather(share.control, json.dumps([astuple(each) for each in mine]))
    found = merge(([FeatureColumn(*each) for each in json.loads(one)] for one in told), share.place)
    if len(found) == 1:
        raise ValueError(f"{share.place}: there are no features, only the label {columns.label}")
    return found


def _only(wanted: Sequence[FeatureColumn], found: Sequence[FeatureColumn]) -> list[FeatureColumn]:
    """Return what was found of some columns, and of the label, which is last."""
    names = {each.name for each in wanted}
    return [*(each for each in found[:-1] if each.name in names), *found[-1:]]


def _check_rows(share: Share, has_rows: bool) -> None:
    lacking = torch.tensor([int(not has_rows)], dtype=torch.int64)
    share.control.sum(lacking)
    if int(lacking):
        raise ValueError(
            f"{share.place}: {int(lacking)} of {share.world_size} workers have no row: use fewer "
            "workers"
        )


def _check_groups(share: Share, column: str) -> None:
    count = Groups(share.rank, share.world_size).count(share.tables(), column)
    if count < share.world_size:
        raise ValueError(
            f"{share.place}: {count} groups for {share.world_size} workers: use fewer workers"
        )


def _categories(
    share: Share, found: Sequence[FeatureColumn], categorical: Sequence[str]
) -> Categories:
    """Return all categories of the columns, on all ranks alike. A collective."""
    texts = {each.name: set[str]() for each in found if each.kind == "texts"}
    most = {name: -1.0 for name in categorical if name not in texts}
    if texts or most:
        for table in share.tables():
            for name, seen in texts.items():
                seen.update(text for text in as_texts(table[name]) if text is not None)
            most = {name: max(seen, _largest(name, table[name])) for name, seen in most.items()}
    of_ranks = [
        json.loads(told)
        for told in _gather(
            share.control, json.dumps([{n: sorted(seen) for n, seen in texts.items()}, most])
        )
    ]
    return Categories(
        {name: tuple(sorted({t for told, _ in of_ranks for t in told[name]})) for name in texts},
        {name: max(float(told[name]) for _, told in of_ranks) for name in most},
    )


def _largest(name: str, codes: NDArray[np.generic]) -> float:
    """Return the largest code of a column; -1 where all are missing."""
    return float(np.nanmax(np.append(as_numbers(name, codes), -1.0)))


def _gather(control: Control, text: str) -> list[str]:
    """Return every rank's text, in rank order. A collective."""
    mine = text.encode()
    lengths = control.gather(torch.tensor([len(mine)], dtype=torch.int64))
    padded = torch.zeros(max(int(length) for length in lengths), dtype=torch.uint8)
    padded[: len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
    return [
        encoded[: int(length)].numpy().tobytes().decode()
        for length, encoded in zip(lengths, control.gather(padded), strict=True)
    ]
