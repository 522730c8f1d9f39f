"""Exports the model of a run to the formats of other programs, and compares the outputs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainshed.data.sources.formats.optional_packages import (
    OptionalPackage,
    expected_packages,
    missing_of,
)
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from trainshed.data.sources.column_arrays import Array, Columns
    from trainshed.predict.trained_model import TrainedModel

# The ending of files of each format.
SUFFIXES = {
    "onnx": ".onnx",
    "torchscript": ".pt",
    "safetensors": ".safetensors",
    "ubj": ".ubj",
    "keras": ".keras",
}
_PACKAGES = {
    "onnx": [OptionalPackage(name, name) for name in ("onnx", "onnxruntime", "onnxscript")],
    "safetensors": [OptionalPackage("safetensors", "safetensors")],
}
# Of outputs in float32: a program of another vendor adds up in another order.
RELATIVE, ABSOLUTE = 1e-4, 1e-5


def export_model(model: TrainedModel, rows: Columns, form: str, file: Path) -> None:
    """Write a file that has the outputs of the model.

    Args:
        model: to export.
        rows: whose outputs are compared before the file gets its name; as they were read.
        form: a key of `SUFFIXES`.
        file: new.

    Raises:
        SpecError: if the file exists, the model has no such format, the package of the format is
            not installed, or its outputs differ.
    """
    _check(model, form, file)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=file.parent) as folder:
        written = Path(folder, f"model{SUFFIXES[form]}")
        try:
            wanted, found = model.export(rows, form, written)
        except SpecError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            expected = f"a model that its framework can export ({said}). Choose another format"
            raise SpecError([Problem("--to", form, expected)]) from error
        for name, outputs in wanted.items():
            if not _are_equal(found[name], outputs):
                needed = f"a format in which {name} stays the same. Choose another one"
                raise SpecError([Problem("--to", form, needed)])
        written.rename(file)


def _check(model: TrainedModel, form: str, file: Path) -> None:
    if form not in model.formats:
        expected = f"{' or '.join(model.formats)}, which this model has"
        raise SpecError([Problem("--to", form, expected)])
    if file.suffix != SUFFIXES[form]:
        raise SpecError([Problem("--output", str(file), f"a file that ends with {SUFFIXES[form]}")])
    if not file.parent.is_dir():
        expected = "a file in an existing folder. Create the folder"
        raise SpecError([Problem("--output", str(file), expected)])
    if file.exists():
        expected = "a new file. Delete it, or choose another name"
        raise SpecError([Problem("--output", str(file), expected)])
    if missing := missing_of(_PACKAGES.get(form, ())):
        raise SpecError([Problem("--to", form, expected_packages(missing))])


def _are_equal(found: Array, expected: Array) -> bool:
    if expected.dtype.kind not in "fc":
        return np.array_equal(found, expected)
    return found.shape == expected.shape and np.allclose(
        found, expected, RELATIVE, ABSOLUTE, equal_nan=True
    )
