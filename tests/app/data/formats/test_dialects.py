"""CSV files of other programs: quotes, escapes, comments, decimal commas, encodings."""

import csv
import gzip
import io
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.app.data.builders_formats import open_files, read_all
from trainshed.data.sources.formats import line_files
from trainshed_api.errors import RuleError, SpecError
from trainshed_api.formats import options_of

TEXTS: dict[str, JsonValue] = {"types": {"a": "string", "b": "string"}}
VALUES = st.text(st.sampled_from("1,;'\"\\ x"), max_size=6)
ROWS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(
    rows=ROWS,
    quote=st.sampled_from("\"'"),
    delimiter=st.sampled_from(",;"),
    escaped=st.booleans(),
    span=st.sampled_from([8, 10**6]),
)
def test_values_that_python_writes_are_read_in_every_dialect(
    rows: list[tuple[str, str]], quote: str, delimiter: str, escaped: bool, span: int
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(
        text,
        delimiter=delimiter,
        quotechar=quote,
        escapechar="\\" if escaped else None,
        doublequote=not escaped,
        quoting=csv.QUOTE_ALL,
        lineterminator="\n",
    )
    writer.writerows([("a", "b"), *rows])
    options = TEXTS | {"quote": quote, "delimiter": delimiter}
    if escaped:
        options["escape"] = "\\"

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        Path(folder, "a.csv").write_text(text.getvalue())
        patched.setattr(line_files, "SPAN_BYTES", span)
        read = read_all(open_files(Path(folder), "csv", options))

    assert list(zip(read["a"].tolist(), read["b"].tolist(), strict=True)) == rows


@dataclass(frozen=True)
class Dialect:
    """A file, its options, and the values of its columns."""

    content: bytes
    options: dict[str, JsonValue]
    expected: dict[str, list[object]]


DIALECTS = {
    "a decimal comma": Dialect(
        b"x;y\n1,5;2\n-0,25;3\n",
        {"delimiter": ";", "decimal": ","},
        {"x": [1.5, -0.25], "y": [2, 3]},
    ),
    "a backslash before a quote": Dialect(
        b't,y\n"say \\"hi\\", ok",1\nplain,2\n',
        {"escape": "\\"},
        {"t": ['say "hi", ok', "plain"], "y": [1, 2]},
    ),
    "no quotes": Dialect(
        b't|y\n6" disk|1\n"|2\n',
        {"quote": "", "delimiter": "|"},
        {"t": ['6" disk', '"'], "y": [1, 2]},
    ),
    "comments": Dialect(
        b'# made by hand, "so\nx,y\n1,2\n#3,4\n5,6\n', {"comment": "#"}, {"x": [1, 5], "y": [2, 6]}
    ),
    "a comment behind a byte order mark": Dialect(
        b"\xef\xbb\xbf# made by hand\nx,y\n1,2\n", {"comment": "#"}, {"x": [1], "y": [2]}
    ),
    "Latin-1": Dialect(
        "gr\u00f6\u00dfe,name\n1,J\u00fcrgen\n".encode("latin-1"),
        {"encoding": "latin-1"},
        {"gr\u00f6\u00dfe": [1], "name": ["J\u00fcrgen"]},
    ),
    "Cyrillic letters": Dialect(
        "name\n\u0438\u043c\u044f\n".encode("windows-1251"),
        {"encoding": "windows-1251"},
        {"name": ["\u0438\u043c\u044f"]},
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("block_bytes", [16, 2**20])
def test_files_of_other_programs_are_read(
    dialect: Dialect, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_files, "BLOCK_BYTES", block_bytes)
    (tmp_path / "a.csv").write_bytes(dialect.content)

    read = read_all(open_files(tmp_path, "csv", dialect.options))

    assert {name: column.tolist() for name, column in read.items()} == dialect.expected


def test_words_for_a_missing_number_are_nan(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,t\n1.5,n/k\nn/k,b\n")

    read = read_all(open_files(tmp_path, "csv", {"nullValues": ["n/k"]}))

    assert str(read["x"].tolist()) == "[1.5, nan]"
    assert read["t"].tolist() == ["n/k", "b"]


@dataclass(frozen=True)
class Refusal:
    """A file that the options do not fit, and a part of the message."""

    name: str
    content: bytes
    message: str


REFUSALS = {
    "a header in another encoding": Refusal(
        "a.csv",
        "gr\u00f6\u00dfe\n1\n".encode("latin-1"),
        r"a\.csv.* in utf-8. Set options\.encoding",
    ),
    "gzip by another name": Refusal(
        "a.csv", gzip.compress(b"x\n1\n"), r"a\.csv.*its name has to end in \.gz"
    ),
    "another name than gzip's": Refusal("a.csv.gz", b"x\n1\n", r"a\.csv\.gz.*not compressed as"),
    "tabs": Refusal(
        "a.tsv",
        b"x\ty\n1\t2\n",
        r'options\.delimiter: got ","; expected "\\t", which is in each .*a\.tsv',
    ),
    "quotes with a backslash": Refusal(
        "a.csv", b't,y\n"say \\"hi\\" ok",1\n', r"a\.csv.*Set options\.escape"
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_file_that_the_options_do_not_fit_is_named_with_what_to_do(
    refusal: Refusal, tmp_path: Path
) -> None:
    (tmp_path / refusal.name).write_bytes(refusal.content)

    with pytest.raises(SpecError, match=refusal.message):
        open_files(tmp_path, "csv")


@pytest.mark.parametrize(
    "options",
    [
        {"quote": ","},
        {"escape": '"'},
        {"delimiter": "\u00e4"},
        {"delimiter": "x"},
        {"comment": "#", "multiline": True},
        {"encoding": "utf-16"},
        {"decimal": ";"},
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, JsonValue]) -> None:
    with pytest.raises(RuleError, match="options"):
        options_of("csv", options)
