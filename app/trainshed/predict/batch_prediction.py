"""Predictions for the rows of files, in batches."""

from __future__ import annotations

import hashlib
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
from pydantic import Field, JsonValue

from trainshed.data.sources.column_arrays import num_rows, take_rows
from trainshed.data.sources.errors import DataError
from trainshed.functions import find, source_of
from trainshed.inspect.inputs import SOURCE, format_of, open_files
from trainshed.inspect.reading import read_untransformed
from trainshed.predict.hooks import RUN
from trainshed.predict.part_files import PartFiles
from trainshed.predict.predictor import SCORES
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import FormatName
from trainshed_api.json_object import as_object
from trainshed_api.progress import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sources.column_arrays import Array, Columns
    from trainshed.inspect.inputs import RowInput
    from trainshed.predict.trained_model import TrainedModel
    from trainshed_api.json_object import JsonObject

Item = TypeVar("Item")


class BatchPrediction:
    """A model and the rows of files.

    Args:
        model: the model.
        given: the rows.
        batch_rows: rows of a batch.
        with_scores: whether to include the scores of all classes.
    """

    def __init__(
        self, model: TrainedModel, given: RowInput, batch_rows: int, *, with_scores: bool
    ) -> None:
        self._model = model
        self._given = given
        self._with_scores = with_scores
        self._how = given.unrounded().reading(batch_rows)

    @property
    def fragments(self) -> Sequence[Fragment]:
        """Return the parts of the files."""
        return self._given.fragments

    @property
    def schema(self) -> pa.Schema | None:
        """Return the schema of the files, if they have one."""
        return self._given.source.scan.schema or self._given.source.schema

    def tables(self) -> Iterator[Columns]:
        """Yield all rows in order, with their predictions."""
        for fragment in self.fragments:
            yield from self.of_fragment(fragment)

    def write(self, file: Path, told: Callable[[Fragment], None]) -> int:
        """Write all predictions, except those that an interrupted call has written.

        Args:
            file: new; its ending is the format.
            told: called with each fragment that is done.

        Returns:
            Rows that this call has predicted.

        Raises:
            SpecError: as `PartFiles` raises it.
            DataError: if rows cannot be read or predicted.
        """
        rows = 0
        with closing(PartFiles(file, self.identity(), self.schema)) as parts:
            for number, fragment in enumerate(self.fragments):
                if not parts.has(number):
                    rows += parts.write(number, self.of_fragment(fragment))
                told(fragment)
            parts.finish(len(self.fragments))
        return rows

    def of_fragment(self, fragment: Fragment) -> Iterator[Columns]:
        """Yield the rows of a part of the files in order, with their predictions."""
        # Values alone do not decide: all of a part may be missing, and the others lists.
        hidden = {each.name for each in self.schema or () if not _is_single(each.type)}
        for table in read_untransformed(self._how, fragment):
            if num_rows(table):
                try:
                    predicted = self._model.predict_table(_plain(table))
                except DataError as error:
                    raise DataError(f"{fragment.path}: {error}") from error
                if not self._with_scores:
                    predicted.pop(SCORES, None)
                shown = {
                    name: each
                    for name, each in table.items()
                    if name not in hidden and _identifies(each)
                }
                yield join_predictions(shown, predicted)

    def identity(self) -> str:
        """Return a digest of all that rows and predictions depend on; equal in each process."""
        manifest = self._model.manifest
        about = manifest.prediction
        made_of = [
            str(self._model.checkpoint),
            (manifest.position, manifest.files),
            self._with_scores,
            (self._given.source.scan, self._given.columns),
            [source_of(find(use, RUN)) for use in (about.builder, about.predict) if use],
        ]
        identity = hashlib.sha256(repr(made_of).encode())
        for fragment in self.fragments:
            identity.update(repr(fragment).encode())
        return identity.hexdigest()


def open_rows(
    text: str,
    model: TrainedModel,
    form: FormatName | None,
    options: Sequence[str],
    columns: Sequence[str],
) -> RowInput:
    """Return the rows of files, read as the dataset that trained was; arguments: `open_files`.

    Raises:
        SpecError: naming the wrong argument of the command.
        InfrastructureError: if the storage does not return what is needed.
    """
    read = ReadOfTraining.model_validate(model.manifest.prediction.dataset.get("read", {}))
    form = form or format_of(text, read.format)
    known = dict(read.options) if form == read.format else {}
    if form == "images":  # whose folders may have any names
        known["labels"] = "none"
        columns = columns or ("image", "path")
    types = _text_features(model) if form == "csv" else {}
    types |= as_object(known.pop("types", None))
    given = open_files(text, form, options, columns, known)
    schema = given.source.scan.schema or given.source.schema or pa.schema([])
    # A label that trained need not be there, and options of the command go first. Files whose
    # texts were found to be texts are not opened again for them.
    there = {
        name: kind
        for name, kind in types.items()
        if name in schema.names
        and not (kind == "string" and pa.types.is_string(schema.field(name).type))
    }
    return open_files(text, form, options, columns, {**known, "types": there}) if there else given


def _text_features(model: TrainedModel) -> JsonObject:
    """Return the type of the features that were texts, which csv files may hold as numbers."""
    inputs = model.manifest.prediction.state.get("inputs")
    rows = [row for row in inputs if isinstance(row, list)] if isinstance(inputs, list) else []
    return {str(row[0]): "string" for row in rows if row[-1] == "texts"}


def first_rows(given: RowInput, count: int) -> Columns:
    """Return the first rows as a model gets them; one row twice, as exporters need several.

    Raises:
        SpecError: if there are none.
    """
    how = given.unrounded().reading(count)
    for fragment in given.fragments:
        for table in read_untransformed(how, fragment):
            if rows := num_rows(table):
                return take_rows(_plain(table), np.arange(max(rows, 2)) % rows)
    raise SpecError([Problem(SOURCE, None, "files with rows")])


def join_predictions(shown: Mapping[str, Item], predicted: Mapping[str, Item]) -> dict[str, Item]:
    """Return the columns of rows with those of their predictions.

    Raises:
        DataError: if both have a column.
    """
    if twice := sorted(shown.keys() & predicted.keys()):
        raise DataError(
            f"column {twice[0]}: got a column of the source; expected another name than that of "
            "predictions. Rename it, or choose the others by --columns"
        )
    return {**shown, **predicted}


class ReadOfTraining(Record):
    """What a manifest records of `read`."""

    format: FormatName | None = None
    options: dict[str, JsonValue] = Field(default_factory=dict)


def _plain(table: Columns) -> Columns:
    """Return columns as transforms get them: floats for integers with missing values."""
    return {
        name: np.ma.filled(each.astype(np.float64), np.nan) if np.ma.isMA(each) else each
        for name, each in table.items()
    }


def _is_single(kind: pa.DataType) -> bool:
    """Return whether a type of files has one number, text or time for each row."""
    if isinstance(kind, pa.BaseExtensionType):
        return _is_single(kind.storage_type)
    return not (
        pa.types.is_nested(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _identifies(array: Array) -> bool:
    """Return whether a column has one number, text or time for each row, not bytes or lists."""
    if array.dtype != object:
        return array.ndim == 1
    held = (bytes, bytearray, memoryview, np.ndarray, list, dict)
    return array.ndim == 1 and not any(isinstance(value, held) for value in array.tolist())
