"""Of CSV, whatever its quotes, only rows come that Python's csv module reads too."""

import csv
import io
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.app.data.builders_formats import open_files, read_all, read_good
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats import line_files
from trainshed_api.errors import SpecError

TEXTS: dict[str, JsonValue] = {"a": "string", "b": "string"}
VALUES = st.text(st.sampled_from('1,"\n x'), max_size=6)
ROWS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12)
# Of parts of a file that a task reads, and of what it parses at once.
SIZES = st.sampled_from([3, 8, 20, 10**6])


def rows_of(text: str) -> list[tuple[str, ...]]:
    """Return the rows that Python's csv module finds."""
    return [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), strict=False)]


def rows_that_come(
    text: str, span: int, block: int, *, multiline: bool
) -> list[tuple[str, ...]] | None:
    """Return the rows of a file whose bad records are skipped; None where it is refused."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        Path(folder, "a.csv").write_bytes(text.encode())
        patched.setattr(line_files, "SPAN_BYTES", span)
        patched.setattr(line_files, "BLOCK_BYTES", block)
        options: dict[str, JsonValue] = {
            "types": TEXTS,
            "header": False,
            "names": [*TEXTS],
            "multiline": multiline,
        }
        try:
            good, _ = read_good(open_files(Path(folder), "csv", options, skips_bad=True))
        except (DataError, SpecError):
            return None
    return [tuple(row) for row in zip(*good.values(), strict=True)]


def written(rows: Iterable[tuple[str, str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


@example(text='1,"x\n2,7\ny"\n3,z\n', span=10**6, block=10**6, multiline=False)
@example(text='1,"x\n2,7\ny"\n3,z\n', span=10**6, block=3, multiline=False)
@example(text='1,"x\n2,7\ny"\n3,z\n', span=8, block=8, multiline=False)
@example(text='1,1" x\n2,"x\n7,x"\n3\n', span=8, block=8, multiline=True)
@given(
    text=st.text(st.sampled_from('1,,""\n\nx'), min_size=1, max_size=60),
    span=SIZES,
    block=SIZES,
    multiline=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_skipping_bad_records_makes_no_row_that_the_file_has_not(
    text: str, span: int, block: int, multiline: bool
) -> None:
    come = rows_that_come(text, span, block, multiline=multiline)

    there = iter(rows_of(text))
    assert come is None or all(row in there for row in come)  # as they come in the file


@given(rows=ROWS, span=SIZES, block=SIZES)
@settings(max_examples=60, deadline=None)
def test_values_with_line_ends_come_whole_with_multiline(
    rows: list[tuple[str, str]], span: int, block: int
) -> None:
    assert rows_that_come(written(rows), span, block, multiline=True) == rows


@given(rows=ROWS, block=SIZES)
@settings(max_examples=60, deadline=None)
def test_without_multiline_all_rows_but_those_with_line_ends_come(
    rows: list[tuple[str, str]], block: int
) -> None:
    whole = [row for row in rows if not any("\n" in value for value in row)]

    come = rows_that_come(written(rows), 10**6, block, multiline=False)

    assert come == whole or (come is None and not whole)


@pytest.mark.parametrize("inch", ["", '"'], ids=["no other quote", "a quote inside of a value"])
def test_a_quote_behind_a_byte_order_mark_opens_a_value(tmp_path: Path, inch: str) -> None:
    content = f'\ufeff"a\nb",c\n"1\n2",3{inch}\n'
    (tmp_path / "a.csv").write_bytes(content.encode())
    source = open_files(tmp_path, "csv", {"multiline": True, "types": {"c": "string"}})

    rows = read_all(source)

    assert {name: column.tolist() for name, column in rows.items()} == {
        "a\nb": ["1\n2"],
        "c": [f"3{inch}"],
    }


def test_a_skipped_value_with_line_ends_counts_its_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,t\n1,"x\n2,7\ny"\n3,z\n')
    types: dict[str, JsonValue] = {"types": {"id": "int64", "t": "string"}}

    good, bad = read_good(open_files(tmp_path, "csv", types, skips_bad=True))

    assert good["id"].tolist() == [3]
    assert [(each.place, each.rows) for each in bad] == [("byte 5", 3)]


@pytest.mark.parametrize("skips_bad", [True, False])
def test_a_quote_that_is_open_where_the_next_task_reads_on_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skips_bad: bool
) -> None:
    monkeypatch.setattr(line_files, "SPAN_BYTES", 12)
    (tmp_path / "a.csv").write_bytes(b'id,t\n1,"x\n2,7\n3,8\n4,9\ny"\n5,z\n')
    source = open_files(tmp_path, "csv", {"types": {"id": "int64"}}, skips_bad=skips_bad)

    with pytest.raises(DataError, match=r"byte 5: a quote is not closed.*options\.multiline: true"):
        read_good(source)
