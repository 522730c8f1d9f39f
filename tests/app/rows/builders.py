"""Writes rows of files anew, and reads them back."""

from pathlib import Path

from tests.app.data.builders_formats import open_files as open_source
from tests.app.data.builders_formats import read_all
from trainshed.data.sampler.fragments import Fragment
from trainshed.data.sampler.function import Function
from trainshed.data.sources.column_arrays import Columns
from trainshed.records.disk import Disk
from trainshed.rows.inputs import Input
from trainshed.rows.writing import Wish, Written, write

FIELD = "spec.data.datasets.train"
ONE_FILE = Wish(file_bytes=2**30)


def select(folder: Path, form: str, *use: str) -> Input:
    """Return the rows of a folder's files; use: transforms of them."""
    functions = tuple(
        Function(f"tests.app.rows.functions:{name}", f"{FIELD}.transforms[{place}].use")
        for place, name in enumerate(use)
    )
    return Input(open_source(folder, form), FIELD, (), functions)


def write_to(given: Input, folder: Path, wish: Wish = ONE_FILE) -> Written:
    """Write rows into a folder."""
    return write(given, Disk(folder), wish, ignore)


def read_back(folder: Path) -> Columns:
    """Return the rows of parquet files."""
    return read_all(open_source(folder, "parquet"), chunk_rows=2**16)


def parquet_of(given: Input, folder: Path, wish: Wish = ONE_FILE) -> Columns:
    """Write rows into a folder and return what is read from there."""
    write_to(given, folder, wish)
    return read_back(folder)


def rows_of(given: Input) -> Columns:
    """Return the rows of a given without transforms."""
    assert not given.transforms
    return read_all(given.source)


def ignore(fragment: Fragment) -> None:
    """Be told of a fragment."""
