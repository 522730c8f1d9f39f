"""A file that is written anew after it was listed is refused, wherever a run notices."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.data.builders_buckets import write_parquet
from tests.app.data.builders_formats import (
    open_files,
    read_all,
    write_csv,
    write_npy,
    write_pictures,
    write_text,
)
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources.dataset_files import read_fragment
from trainshed.data.sources.errors import DataError
from trainshed_api.errors import SpecError

CHANGED = r"{}.*: it was overwritten since the run was planned"
FORMS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "csv": ("a.csv", lambda at: write_csv(at / "a.csv", 0, 300)),
    "csv.gz": ("a.csv.gz", lambda at: write_csv(at / "a.csv.gz", 0, 300)),
    "numpy": ("a.npy", lambda at: write_npy(at / "a.npy", 0, 300)),
    "images": ("cat/0001.png", lambda at: write_pictures(at, {"cat": 3, "dog": 2})),
    "parquet": ("a.parquet", lambda at: write_parquet(at / "a.parquet", 3)),
}


def write_anew(path: Path, content: bytes | None = None) -> None:
    """Write a file's own content, or another one, in its place and a little later."""
    before = path.stat().st_mtime
    path.write_bytes(path.read_bytes() if content is None else content)
    os.utime(path, (before + 1, before + 1))


def opened(folder: Path, form: str) -> Source:
    return open_files(folder, form.partition(".")[0])


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_was_written_anew_after_the_plan_is_refused(tmp_path: Path, form: str) -> None:
    name, write = FORMS[form]
    write(tmp_path)
    source = opened(tmp_path, form)
    write_anew(tmp_path / name)

    with pytest.raises(DataError, match=CHANGED.format(name)):
        read_all(source)


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_starts_again_takes_files_of_other_dates_for_the_same(
    tmp_path: Path, form: str
) -> None:
    name, write = FORMS[form]
    write(tmp_path)
    before = opened(tmp_path, form)
    write_anew(tmp_path / name)

    after = opened(tmp_path, form)

    assert (after.digest, after.fingerprint) == (before.digest, before.fingerprint)
    assert read_all(after)


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_file_that_changes_in_its_place_while_it_is_read_is_refused(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "a.txt"
    write_text(path, 0, 1000)
    source = opened(tmp_path, "text")
    tables = read_fragment(source.scan, source.fragments[0], [], 10)
    next(tables)
    write_anew(path, b"x\n" * size)

    with pytest.raises(DataError, match=CHANGED.format("a.txt")):
        list(tables)


def test_a_parquet_file_that_changes_in_its_place_is_no_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, 3)
    source = opened(tmp_path, "parquet")
    tables = read_fragment(source.scan, source.fragments[0], [], 10)
    next(tables)
    write_anew(path, bytes(path.stat().st_size))

    with pytest.raises(DataError, match=CHANGED.format("a.parquet")):
        list(tables)


def test_a_name_that_is_no_text_is_refused_at_once(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", 0, 10)
    (tmp_path / os.fsdecode(b"b\xff.csv")).write_bytes((tmp_path / "a.csv").read_bytes())

    with pytest.raises(SpecError, match=r"got b.+xff\.csv; expected files with names in UTF-8"):
        opened(tmp_path, "csv")
