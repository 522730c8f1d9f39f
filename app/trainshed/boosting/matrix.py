"""A dataset as XGBoost's matrix: each rank's share of the rows in file order, read twice.

XGBoost reads once to find where to cut each feature, and once to put the rows in: nothing but its
own compressed form is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import xgboost

from trainshed.boosting.columns import Groups, Layout, MatrixColumns, Texts, as_texts, features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from trainshed.data.read.columns import Columns
    from trainshed.worker.agreement import Control


@dataclass(frozen=True)
class Matrix:
    """This rank's share of a dataset.

    Args:
        data: XGBoost's own.
        columns: what they are.
        texts: categories of text columns.
        layout: of the features.
        rows: of all ranks.
    """

    data: xgboost.QuantileDMatrix
    columns: MatrixColumns
    texts: Texts
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
        num_ranks: number of ranks.
    """

    place: str
    tables: Callable[[], Iterator[Columns]]
    control: Control
    rank: int
    num_ranks: int


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
    first = next(share.tables(), None)
    _check_rows(share, first)
    assert first is not None
    columns.check(first, share.place)
    texts = like.texts if like else _categories(share, columns.text_columns(first))
    layout = Layout.of(first, columns, texts)
    data = xgboost.QuantileDMatrix(
        _Reading(share, columns, texts, layout),
        ref=like.data if like else None,
        max_bin=max_bin,
        nthread=threads,
        enable_categorical="c" in layout.types,
    )
    rows = torch.tensor([data.num_row()], dtype=torch.int64)
    share.control.sum(rows)
    return Matrix(data, columns, texts, layout, int(rows))


class _Reading(xgboost.DataIter):
    """Hands XGBoost a table after the other."""

    def __init__(self, share: Share, columns: MatrixColumns, texts: Texts, layout: Layout) -> None:
        super().__init__()
        self._share = share
        self._columns = columns
        self._texts = texts
        self._layout = layout
        self._coming: Iterator[dict[str, object]] = iter(())

    def reset(self) -> None:
        """Begin anew."""
        self._coming = self._arguments()

    def next(self, input_data: Callable[..., None]) -> bool:
        """Hand the next table over; return whether there was one."""
        arguments = next(self._coming, None)
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
        groups = Groups(self._share.rank, self._share.num_ranks)
        for grouped in groups.whole(tables, wanted.group):
            given = self._as_arguments(grouped.rows) | {"qid": grouped.numbers}
            if wanted.weight:  # XGBoost wants one a group, and takes its first row's
                given["weight"] = grouped.rows[wanted.weight][grouped.firsts]
            yield given

    def _as_arguments(self, rows: Columns) -> dict[str, object]:
        wanted = self._columns
        return {
            "data": features(rows, wanted, self._texts, self._layout),
            "label": self._labels(rows),
            "feature_names": list(self._layout.names),
            "feature_types": list(self._layout.types),
        }

    def _labels(self, rows: Columns) -> NDArray[np.generic]:
        name = self._columns.label
        if name not in self._texts.by_column:
            return rows[name]
        codes = self._texts.codes(name, rows[name])
        if np.isnan(codes).any():
            unknown = as_texts(rows[name][np.isnan(codes)])[0]
            known = ", ".join(self._texts.by_column[name])
            raise ValueError(
                f"{self._share.place}: label {unknown} is no class of the rows that train: {known}"
            )
        return codes


def _check_rows(share: Share, first: Columns | None) -> None:
    lacking = torch.tensor([int(first is None)], dtype=torch.int64)
    share.control.sum(lacking)
    if int(lacking):
        raise ValueError(
            f"{share.place}: {int(lacking)} of {share.num_ranks} workers have no row: use fewer "
            "workers"
        )


def _categories(share: Share, names: list[str]) -> Texts:
    """Return all texts of the columns, on all ranks alike. A collective."""
    seen: dict[str, set[str]] = {name: set() for name in names}
    if names:
        for table in share.tables():
            for name in names:
                seen[name].update(text for text in as_texts(table[name]) if text is not None)
    return Texts({name: _of_all_ranks(share.control, seen[name]) for name in names})


def _of_all_ranks(control: Control, texts: set[str]) -> tuple[str, ...]:
    mine = "\0".join(sorted(texts)).encode()
    lengths = control.gather(torch.tensor([len(mine)], dtype=torch.int64))
    longest = max(int(length) for length in lengths)
    padded = torch.zeros(longest, dtype=torch.uint8)
    if mine:
        padded[: len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
    found: set[str] = set()
    for length, encoded in zip(lengths, control.gather(padded), strict=True):
        written = bytes(encoded[: int(length)].tolist()).decode()
        found.update(written.split("\0") if written else ())
    return tuple(sorted(found))
