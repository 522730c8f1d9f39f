"""Files and fragments in arrays are the same as one object each."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.app.data.builders_formats import open_files
from trainshed.data.sampler.file_tables import FileTable, FileVersions, FragmentTable, Texts
from trainshed.data.sampler.fragments import File, Fragment
from trainshed.data.sources.parquet import ColumnFacts

if TYPE_CHECKING:
    from pathlib import Path

MANY = 5_000
FRAGMENTS = {
    "a whole file": Fragment("rows/0", 0, (), None, 7),
    "bytes of a large file": Fragment("rows/1", 1, (), None, 2**33, (2**33, 2**34)),
    "row groups with a gap": Fragment("rows/2", 2, (0, 1, 5), 30, 300),
    "several files": Fragment("rows/3", 3, (), 3, 9, more=("rows/4", "rows/5")),
    "rows after others": Fragment("rows/6", 6, (4,), 2**40, 1, skip=12),
    "a partition": Fragment("rows/7", 7, (0,), 1, 1, constants=(("day", "2024-01-01"),)),
}


def test_fragments_are_returned_as_they_were_given() -> None:
    given = list(FRAGMENTS.values())
    table = pickle.loads(pickle.dumps(FragmentTable.of(given)))
    for name, number in zip(FRAGMENTS, range(len(given)), strict=True):
        assert table[number] == given[number], name
    assert list(table) == given
    assert table[-1] == given[-1]
    assert table[1:3] == given[1:3]
    assert len(FragmentTable.of([])) == 0


def test_whole_files_are_the_fragments_that_each_of_them_is() -> None:
    paths, sizes = Texts(["a", "b", "c"]), np.asarray([1, 2**33, 0])
    versions = FileVersions(sizes, np.zeros(3, np.int64), np.arange(3))
    each = [Fragment(path, place, (), None, int(sizes[place])) for place, path in enumerate(paths)]
    want = FragmentTable(each, paths, versions)
    table = pickle.loads(pickle.dumps(FragmentTable.of_files(sizes, paths, versions)))
    assert list(table) == list(want)
    assert list(table.rows) == list(want.rows)


def test_files_are_returned_as_they_were_given() -> None:
    given = [File("a/é.csv", 2**40), File("b.parquet", 0, 0, 2**32 - 1), File("c", 1, 2**35)]
    table = FileTable.of(given)
    assert list(table) == given
    assert table == FileTable.of(given)
    assert table.digest == FileTable.of(given).digest
    assert table != FileTable.of([*given[:2], replace(given[2], rows=3)])
    assert list(Texts(["a", "", "b"]).after("x/")) == ["x/a", "x/", "x/b"]


def test_a_file_takes_a_few_bytes_of_a_plan(tmp_path: Path) -> None:
    """A worker of 200,000 files holds at most 10 MB."""
    for folder in range(MANY // 1000):
        (tmp_path / f"part-{folder:05}").mkdir()
        for number in range(1000):
            (tmp_path / f"part-{folder:05}" / f"record-{number:07}.txt").write_bytes(b"x\n")
    source = open_files(tmp_path, "text")
    assert len(source.files) == len(source.fragments) == MANY
    assert source.fragments[MANY - 1].paths == (str(tmp_path / "part-00004/record-0000999.txt"),)
    assert source.fragments[7].stamps[0].bytes == 2
    assert len(pickle.dumps(source)) <= 50 * MANY


def test_metadata_that_differ_in_each_file_are_held_once() -> None:
    """Pandas writes the number of rows into the metadata of each file."""
    facts = ColumnFacts()
    for rows in range(1, 5):
        schema = pa.schema([("x", pa.int64())], metadata={"pandas": str(rows)})
        written = pa.BufferOutputStream()
        pq.write_table(pa.table({"x": list(range(rows))}, schema=schema), written)
        facts.add(f"{rows}.parquet", pq.read_metadata(pa.BufferReader(written.getvalue())))
    assert [each.path for each in facts.schemas()] == ["1.parquet"]
