"""Of files with broken records the good rows come whole and in order, and each bad one is named."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import JsonValue

from tests.app.data.builders_formats import as_if_listed_so, open_files, read_all, read_good
from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sources.errors import DataError
from trainshed_api.errors import SpecError


@dataclass(frozen=True)
class Broken:
    """A file with broken records; the good ones have 1, 2, 3, ... in their column."""

    form: str
    name: str
    content: bytes
    want_places: tuple[str, ...]
    want_reason: str
    column: str = "x"
    options: dict[str, JsonValue] = field(default_factory=dict)


NUMBERS: dict[str, JsonValue] = {"types": {"x": "int64"}}
FILES: dict[str, Broken] = {
    "csv: too few values": Broken(
        "csv", "a.csv", b"x,y\n1,a\n2\n2,b\n3,c\n", ("byte 8",), "Expected 2 columns, got 1"
    ),
    "csv: too many values": Broken(
        "csv", "a.csv", b"x,y\n1,a\n2,b\n9,b,c\n3,c\n", ("byte 12",), "Expected 2 columns, got 3"
    ),
    "csv: a value of another type": Broken(
        "csv", "a.csv", b"x\n1\nfour\n2\n3\n", ("byte 4",), "invalid value 'four'", options=NUMBERS
    ),
    "csv: undecodable text": Broken(
        "csv",
        "a.csv",
        b"x,y\n1,a\n2,b\n4,\xff\n3,c\n",
        ("byte 12",),
        "invalid UTF8.*see options.encoding",
    ),
    "csv: a quote that is not closed": Broken(
        "csv", "a.csv", b'x,y\n1,a\n2,b\n3,c\n4,"b\n5,b\n', ("byte 16",), "a quote is not closed"
    ),
    "csv: a quote that another value closes": Broken(
        "csv",
        "a.csv",
        b'x,y\n1,a\n4,"b\n5,"c"\n2,b\n3,c\n',
        ("byte 8",),
        "a value in quotes has line ends; options.multiline: true reads",
    ),
    "csv: a quote that is not closed in the last line": Broken(
        "csv", "a.csv", b'x,y\n1,a\n2,b\n3,c\n4,"d', ("byte 16",), "a quote is not closed"
    ),
    "csv: one quote inside of a value is none that opens": Broken(
        "csv", "a.csv", b'x,y\n1,5" pipe\n4\n2,b\n3,5"\n', ("byte 14",), "Expected 2 columns"
    ),
    "csv: values with line ends": Broken(
        "csv",
        "a.csv",
        b'x,y\n1,"a\nb"\n4\n2,"b\n\n"\n3,c\n',
        ("byte 12",),
        "Expected 2 columns, got 1",
        options={"multiline": True},
    ),
    "csv: values with line ends, the last of which never ends": Broken(
        "csv",
        "a.csv",
        b'x,y\n1,"a\nb"\n2,b\n3,c\n4,"d\n5,e\n',
        ("byte 20",),
        "a quote is not closed",
        options={"multiline": True},
    ),
    "csv: several, first and last": Broken(
        "csv", "a.csv", b"x\nq\n1\n2\n3\nr\n", ("byte 2", "byte 10"), "invalid", options=NUMBERS
    ),
    "json: a broken line": Broken(
        "json", "a.jsonl", b'{"x":1}\n{"x":\n{"x":2}\n{"x":3}\n', ("byte 8",), "JSON"
    ),
    "json: a line that is null": Broken(
        "json", "a.jsonl", b'{"x":1}\nnull\n{"x":2}\n{"x":3}\n', ("byte 8",), "an object on each"
    ),
    "json: a line that is a list": Broken(
        "json", "a.jsonl", b'{"x":1}\n[2]\n{"x":2}\n{"x":3}\n', ("byte 8",), "an object on each"
    ),
    "json: two objects on a line": Broken(
        "json",
        "a.jsonl",
        b'{"x":1}\n{"x":7} {"x":8}\n{"x":2}\n{"x":3}\n',
        ("byte 8",),
        "one object",
    ),
    "json: an object on two lines": Broken(
        "json",
        "a.jsonl",
        b'{"x":1}\n{"x":\n7}\n{"x":2}\n{"x":3}\n',
        ("byte 8",),
        "object on each line",
    ),
    "json: an object with others on lines of their own": Broken(
        "json",
        "a.jsonl",
        b'{"x":1}\n{"x":7,"y":[\n{"x":8},\n{"x":9}\n]}\n{"x":2}\n{"x":3}\n',
        ("byte 8",),
        "object on each line",
        options=NUMBERS,
    ),
    "json: a value of another type": Broken(
        "json",
        "a.jsonl",
        b'{"x":1}\n{"x":"q"}\n{"x":2}\n{"x":3}\n',
        ("byte 8",),
        "changed from number to string.*options.types",
        options=NUMBERS,
    ),
    "json: undecodable text": Broken(
        "json",
        "a.jsonl",
        b'{"x":1,"s":"a"}\n{"x":7,"s":"\xff"}\n{"x":2,"s":"b"}\n{"x":3,"s":"c"}\n',
        ("byte 16",),
        "UTF8",
    ),
    "json: cut off": Broken(
        "json", "a.jsonl", b'{"x":1}\n{"x":2}\n{"x":3}\n{"x', ("byte 24",), "JSON"
    ),
    "json: what is no object in a list": Broken(
        "json",
        "a.json",
        b'[{"x":1}, 7, {"x":2}, {"x":"q"}, {"x":3}]',
        ("row 1", "row 3"),
        "",
        options={"lines": False, **NUMBERS},
    ),
    "text: undecodable": Broken(
        "text", "a.txt", b"1\n2\nx\xff\n3\n", ("byte 4",), "no UTF-8", column="text"
    ),
}


@pytest.mark.parametrize("broken", FILES.values(), ids=FILES)
@pytest.mark.parametrize("chunk_rows", [1, 2, 100])
def test_good_rows_come_whole_and_bad_ones_are_named(
    tmp_path: Path, broken: Broken, chunk_rows: int
) -> None:
    (tmp_path / broken.name).write_bytes(broken.content)
    source = open_files(tmp_path, broken.form, broken.options, skips_bad=True)

    good, bad = read_good(source, chunk_rows=chunk_rows)

    assert [int(value) for value in good[broken.column]] == [1, 2, 3]
    assert tuple(each.place for each in bad) == broken.want_places
    assert {each.path for each in bad} == {str(tmp_path / broken.name)}
    for each in bad:
        assert re.search(broken.want_reason, each.reason)


def test_a_line_inside_of_a_json_object_is_no_row_in_the_next_block_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainshed.data.sources.formats.line_files.BLOCK_BYTES", 8)
    broken = FILES["json: an object with others on lines of their own"]
    (tmp_path / broken.name).write_bytes(broken.content)

    good, bad = read_good(open_files(tmp_path, "json", broken.options, skips_bad=True))

    assert good["x"].tolist() == [1, 2, 3]
    assert [(each.place, each.rows) for each in bad] == [("byte 8", 4)]


@pytest.mark.parametrize("broken", FILES.values(), ids=FILES)
def test_without_leave_the_first_bad_record_ends_it(tmp_path: Path, broken: Broken) -> None:
    (tmp_path / broken.name).write_bytes(broken.content)

    with pytest.raises((DataError, SpecError), match=broken.name.replace(".", r"\.")):
        read_all(open_files(tmp_path, broken.form, broken.options))


def test_a_text_that_is_no_utf8_makes_no_bytes_of_the_others(tmp_path: Path) -> None:
    """Without leave a column was bytes, in good rows, too."""
    (tmp_path / "a.csv").write_bytes(b"x,y\n1,good\n2,caf\xe9\n")
    source = open_files(tmp_path, "csv")

    assert source.schema == pa.schema([("x", pa.int64()), ("y", pa.string())])
    with pytest.raises(DataError, match=r"a\.csv: byte 11: .*invalid UTF8"):
        read_all(source)


def test_an_array_that_ends_early_gives_the_rows_that_are_whole(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    source = as_if_listed_so(open_files(tmp_path, "numpy", {}, skips_bad=True))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content[:-18])

    found = [read_good(source, chunk_rows=rows) for rows in (1, 2, 4, 6)]

    for good, bad in found:
        assert good["data"].tolist() == [[0, 1], [2, 3], [4, 5]]
        assert bad == [
            BadRecord(
                str(tmp_path / "a.npy"), "row 3 from byte 128 on", "the file ends 3 rows early", 3
            )
        ]


def test_a_file_that_is_no_list_is_one_bad_record(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"x": 1}, {"x": 2}]')
    (tmp_path / "b.json").write_text('[{"x": 3}, {"x": ')
    source = open_files(tmp_path, "json", {"lines": False}, skips_bad=True)

    good, bad = read_good(source)

    assert good["x"].tolist() == [1, 2]
    assert [(each.path, each.place) for each in bad] == [(str(tmp_path / "b.json"), "the file")]


def csv_line(number: int) -> bytes:
    return f'{number},"a, {number}"\n'.encode()


def json_line(number: int) -> bytes:
    return b'{"x": %d, "y": "%d"}\n' % (number, number)


def text_line(number: int) -> bytes:
    return b"%d\n" % number


@dataclass(frozen=True)
class Lines:
    """A format of lines: how one is written, and what some broken ones are."""

    form: str
    suffix: str
    column: str
    good: Callable[[int], bytes]
    bad: tuple[bytes, ...]
    header: bytes = b""


LINES: dict[str, Lines] = {
    "csv": Lines(
        "csv", ".csv", "x", csv_line, (b"1\n", b"q,1\n", b'1,"",""\n', b"1,\xff\n"), b"x,y\n"
    ),
    "json": Lines(
        "json", ".jsonl", "x", json_line, (b"null\n", b'{"x"\n', b'{"x": "q"}\n', b"{}}\n")
    ),
    "text": Lines("text", ".txt", "text", text_line, (b"\xff\n", b"a\xc3\n")),
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
@pytest.mark.parametrize("seed", range(12))
def test_wherever_bad_records_are_good_rows_come_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Lines, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(
        "trainshed.data.sources.formats.line_files.BLOCK_BYTES", chance.choice([7, 64, 4096])
    )
    monkeypatch.setattr(
        "trainshed.data.sources.formats.line_files.SPAN_BYTES", chance.choice([50, 333, 10**6])
    )
    rows, share = chance.randrange(1, 80), chance.choice([0.02, 0.3, 0.9])
    content, want_places = lines.header + lines.good(-1), []
    for number in range(rows):
        if chance.random() < share:
            want_places.append(f"byte {len(content)}")
            content += chance.choice(lines.bad)
        content += lines.good(number)
    (tmp_path / f"a{lines.suffix}").write_bytes(content)
    options = NUMBERS if lines.form != "text" else {}
    source = open_files(tmp_path, lines.form, options, skips_bad=True)

    for chunk_rows in (1, 3, 1000):
        good, bad = read_good(source, chunk_rows=chunk_rows)
        assert [int(value) for value in good[lines.column]] == list(range(-1, rows))
        assert [each.place for each in bad] == want_places
