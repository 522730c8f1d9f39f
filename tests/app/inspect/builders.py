"""Writes rows of files anew, and reads them back."""

from pathlib import Path

from tests.app.data.builders_formats import open_files as open_source
from tests.app.data.builders_formats import read_all
from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sampler.function import Function
from trainshed.data.sources.column_arrays import Columns
from trainshed.inspect.inputs import RowInput
from trainshed.inspect.writing import WriteOptions, WriteSummary, write
from trainshed.storage.disk import Disk

FIELD = "spec.data.datasets.train"
ONE_FILE = WriteOptions(file_bytes=2**30)


def select(folder: Path, form: str, *use: str) -> RowInput:
    """Return the rows of a folder's files; use: transforms of them."""
    functions = tuple(
        Function(f"tests.app.inspect.functions:{name}", f"{FIELD}.transforms[{place}].use")
        for place, name in enumerate(use)
    )
    return RowInput(open_source(folder, form), FIELD, (), functions)


def write_to(given: RowInput, folder: Path, options: WriteOptions = ONE_FILE) -> WriteSummary:
    """Write rows into a folder."""
    return write(given, Disk(folder), options, ignore)


def read_back(folder: Path) -> Columns:
    """Return the rows of parquet files."""
    return read_all(open_source(folder, "parquet"), chunk_rows=2**16)


def parquet_of(given: RowInput, folder: Path, options: WriteOptions = ONE_FILE) -> Columns:
    """Write rows into a folder and return what is read from there."""
    write_to(given, folder, options)
    return read_back(folder)


def rows_of(given: RowInput) -> Columns:
    """Return the rows of a given without transforms."""
    assert not given.transforms
    return read_all(given.source)


def ignore(fragment: Fragment) -> None:
    """Be told of a fragment."""
