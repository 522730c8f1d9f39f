"""Each kind of file that the docs list as refused is refused, and no other one is."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pydantic import JsonValue

from tests.app.data.builders_formats import open_files, read_all
from tests.app.data.builders_tar import npy_head_of, npy_of
from tests.app.data.formats.reader_comparison import KINDS, compare, parquet_of
from tests.bundle.repository import ROOT
from trainshed.data.sources.errors import DataError
from trainshed_api.errors import SpecError

SECTION = "## Files that are refused\n"
ZONED, PLAIN = pa.timestamp("us", "UTC"), pa.timestamp("us")


class Refused(NamedTuple):
    """Files, and a part of the message."""

    files: Mapping[str, bytes]
    message: str
    options: dict[str, JsonValue] = {}  # noqa: RUF012


def parquet(*values: pa.Array) -> dict[str, bytes]:
    return {
        f"{number}.parquet": parquet_of(pa.table({"v": array}))
        for number, array in enumerate(values)
    }


DECIMALS = pa.array([None, 123456789012345678901], pa.decimal128(30, 2))
CASES: Mapping[str, Refused] = {
    "csv: UTF-16": Refused(
        {"a.csv": "v\n1\n".encode("utf-16")}, r"a\.csv.*UTF-16. Convert it to UTF-8"
    ),
    "csv: lines that end by a carriage return alone": Refused(
        {"a.csv": b"v\r1\r"}, "carriage return"
    ),
    "csv: a quoted value with line ends": Refused({"a.csv": b'v,w\n"1\n2",3\n'}, "line ends"),
    "csv: two columns of one name": Refused(
        {"a.csv": b"v,v\n1,2\n"}, r"got 2 columns named v in .*a\.csv; expected columns"
    ),
    "csv: rows of several lengths": Refused(
        {"a.csv": b"v,w\n1,2\n3\n"},
        r"expected 2 values in each row, but a row has 1: 3\. .* by onBadRecord: skip$",
    ),
    "csv: text and numbers in one column of several files": Refused(
        {"a.csv": b"v\n1\n", "b.csv": b"v\nx\n"},
        r"options.types: got column v of string in .*b.csv; expected a type that goes with int64 "
        r"in .*a.csv\. Set one type that holds both there, or write one type$",
    ),
    "csv: an integer that float64 rounds": Refused(
        {"a.csv": b"v\n9007199254740993\n0.5\n"}, "integers exactly"
    ),
    "csv: a number beyond float64": Refused({"a.csv": b"v\n1e400\n"}, "got 1e400"),
    "json: an object over several lines": Refused(
        {"a.json": b'{\n"v": 1\n}\n'},
        r"expected an object on each line, but the first one has several\. Write each on one line",
    ),
    "json: values of several types for one key": Refused(
        {"a.jsonl": b'{"v": 1}\n{"v": "x"}\n'}, "one type for each key"
    ),
    "json: a key that the first rows lack": Refused(
        {"a.jsonl": b'{"v": 1}\n' * 200_000 + b'{"w": 1}\n'}, "unexpected field"
    ),
    "json: an integer that float64 rounds": Refused(
        {"a.jsonl": b'{"v": 9007199254740993}\n{"v": 0.5}\n'}, "integers exactly"
    ),
    "json: a number beyond float64": Refused({"a.jsonl": b'{"v": 1e400}\n'}, "too big"),
    "parquet: text and numbers in one column of several files": Refused(
        parquet(pa.array(["x"]), pa.array([1])), "goes with"
    ),
    "parquet: times with a zone beside times without": Refused(
        parquet(pa.array([1], ZONED), pa.array([1], PLAIN)), "goes with"
    ),
    "parquet: a decimal that floats of other files round": Refused(
        parquet(DECIMALS, pa.array([0.5])), "more digits"
    ),
    "parquet: integers above 2^53 beside missing values in lists": Refused(
        parquet(pa.array([[2**53 + 1, None], [1]])), "float64 would round"
    ),
    "text: other encodings than UTF-8": Refused({"a.txt": b"\xff\n"}, "no UTF-8"),
    "numpy: texts, dates, complex numbers, structured types": Refused(
        {"a.npy": npy_of(np.zeros(2, "U3"))}, "values of <U3"
    ),
    "numpy: arrays of objects": Refused(
        {"a.npy": npy_of(np.zeros(2, object))}, "objects, which are not read"
    ),
    "numpy: an array of more than 1 GiB in Fortran order": Refused(
        {"a.npy": npy_head_of((2**28, 2), is_fortran=True) + bytes(2**23)}, "ascontiguousarray"
    ),
    "numpy: an array without rows, of no axis": Refused({"a.npy": npy_of(np.zeros(()))}, "no rows"),
    "numpy: rows of several shapes": Refused(
        {"a.npy": npy_of(np.zeros((2, 2))), "b.npy": npy_of(np.zeros((2, 3)))}, "as in"
    ),
}


def documented() -> list[str]:
    """Return format and kind of each row of the table."""
    text = (ROOT / "docs" / "data" / "sources.md").read_text()
    table = text.partition(SECTION)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (.+?) \| .+ \|$", table, re.MULTILINE)
    return [f"{form}: {refused}" for form, refused in rows if form != "Format"]


def test_the_docs_list_each_kind_that_is_refused() -> None:
    # Files of records and samples have tests of their own.
    assert [each for each in documented() if not each.startswith(("tfrec", "webd"))] == [*CASES]


@pytest.mark.parametrize("kind", CASES)
def test_each_kind_that_the_docs_list_is_refused(kind: str, tmp_path: Path) -> None:
    for name, content in CASES[kind].files.items():
        (tmp_path / name).write_bytes(content)

    form = kind.partition(":")[0]
    with pytest.raises((SpecError, DataError), match=CASES[kind].message):
        read_all(open_files(tmp_path, form, CASES[kind].options))


@pytest.mark.parametrize("kind", KINDS)
def test_drawn_files_have_the_values_of_another_reader_or_are_refused_as_listed(kind: str) -> None:
    # Where files differ, types have most ways to do so.
    tally = compare(kind, examples=16 if "files" in kind else 4)

    assert tally.different == []
    known = [refused.message for name, refused in CASES.items() if name.split(":")[0] in kind]
    known += ["integers up to 9007199254740992", "goes with", "values of"]
    assert [
        each for each in tally.refused if not any(re.search(message, each) for message in known)
    ] == []
    if kind.startswith("parquet: files"):  # of types that go together
        assert tally.refused == []
