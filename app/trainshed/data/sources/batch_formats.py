"""Converts columns to the format of a function and back: dict of arrays, DataFrame, Arrow table.

A row of an array with several axes is an array in a cell of a DataFrame, and a tensor in Arrow.
Missing values are as in files: NaN for numbers, None for everything else.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from trainshed.data.sources.arrow_columns import from_arrow
from trainshed.data.sources.column_arrays import MOST_EXACT, as_column, num_rows
from trainshed.data.sources.errors import on_one_line

if TYPE_CHECKING:
    import pandas as pd

    from trainshed.data.sources.column_arrays import Array, Columns
    from trainshed_api.transforms import BatchFormat


def to_format(columns: Columns, batch_format: BatchFormat) -> Columns | pd.DataFrame | pa.Table:
    """Return columns in a format, sharing memory if possible.

    Raises:
        ValueError: if the format cannot represent a column.
    """
    if batch_format == "numpy":
        return columns
    if batch_format == "pyarrow":
        return pa.table({name: _to_array(name, array) for name, array in columns.items()})
    import pandas as pd

    series = {name: _to_series(array) for name, array in columns.items()}
    return pd.DataFrame(series, index=pd.RangeIndex(num_rows(columns)))


def from_format(result: object) -> Columns | None:
    """Return the columns of a table in any of the formats; None for other types.

    Raises:
        ValueError: if a column of it cannot be read.
    """
    if isinstance(result, pa.RecordBatch):
        result = pa.Table.from_batches([result])
    if isinstance(result, pa.Table):
        _refuse_twins(result.column_names)
        return _exact(from_arrow(result))
    if isinstance(result, Mapping):
        found: Columns = {}
        for name, values in result.items():
            try:
                found[str(name)] = as_column(values)
            except ValueError as error:
                raise ValueError(f"column {name}: {error}") from error
        return found
    # A DataFrame exists only if pandas is imported.
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(result, pandas.DataFrame):
        return None
    _refuse_twins([str(name) for name in result.columns])
    return {str(name): _from_series(result[name]) for name in result.columns}


def _refuse_twins(names: list[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ValueError(f"several columns {twins[0]}")


def _to_series(array: Array) -> pd.Series:
    import pandas as pd

    if array.ndim > 1:
        cells = np.empty(len(array), dtype=object)
        cells[:] = list(array)
        return pd.Series(cells, dtype=object)
    # By default pandas would convert texts to a type in which None is NaN.
    return pd.Series(array, dtype=object) if array.dtype.kind in "OUS" else pd.Series(array)


def _from_series(series: pd.Series) -> Array:
    if isinstance(series.dtype, np.dtype):
        values: Array = series.to_numpy()
        return _stacked(values) if values.dtype == object else values
    try:
        array = pa.array(series, from_pandas=True)
        if getattr(array.type, "extension_name", "").startswith("pandas."):
            raise pa.ArrowInvalid("only pandas has such values")
    except pa.ArrowException as error:
        raise ValueError(
            f"column {series.name} of {series.dtype} ({on_one_line(error)})"
        ) from error
    chunked = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    return _exact(from_arrow(pa.table({str(series.name): chunked})))[str(series.name)]


def _exact(columns: Columns) -> Columns:
    """Refuse nullable integers that float64 would round."""
    for name, array in columns.items():
        if isinstance(array, np.ma.MaskedArray):
            expected = "fill in what is missing, or return texts"
            raise ValueError(
                f"column {name} has integers beyond {MOST_EXACT} beside missing ones: {expected}"
            )
    return columns


def _stacked(cells: Array) -> Array:
    """Return cells with arrays of one shape and type as one array."""
    values = list(cells)
    if not values or not all(isinstance(value, np.ndarray) for value in values):
        return cells
    if len({(value.shape, value.dtype) for value in values}) > 1:
        return cells
    return np.stack(values)


def _to_array(name: str, array: Array) -> pa.Array:
    try:
        flat = pa.array(array.reshape(-1))
    except (pa.ArrowException, TypeError) as error:
        expected = "numpy or pandas for"
        raise ValueError(
            f"got pyarrow; expected {expected} column {name} ({on_one_line(error)})"
        ) from error
    if array.ndim == 1:
        return flat
    shape = array.shape[1:]
    if 0 in array.shape:
        raise ValueError(
            f"got pyarrow; expected numpy for column {name} of the shape {array.shape}"
        )
    stored = pa.FixedSizeListArray.from_arrays(flat, len(flat) // len(array))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(flat.type, shape), stored)
